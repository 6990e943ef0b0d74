# Everything a person types. It needs make (GNU 3.81 or newer) and Python 3.11, 3.12 or 3.13; the rest is installed
# into .venv from hashed locks. `make help` lists the targets.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

# Options for `make run`, for example: make run ARGS="--ephemeral --port 8080".
ARGS ?=
# Options for pytest, for example: make test TESTS="tests/shape -x".
TESTS ?=
# How many test processes run at once: on two cores more than two, as much of a test is waiting.
JOBS ?= 3
# Say UPGRADE=1 to let `make lock` take newer releases.
UPGRADE ?=

# The interpreter to build .venv with: the first on PATH that fits, unless you say PYTHON=.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(SUPPORTED)' 2>/dev/null && { echo "$$python"; exit; }; done; echo python3)

BIN := .venv/bin
# The package that the Supervaizer adapter is tested with.
SUPERVAIZER := adapters/supervaizer/.packages/.installed
HASHED := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
LOCK := $(BIN)/uv pip compile $(HASHED) --extra embedded --extra tracing --group build

# Scripts and the editable install hold the path of the checkout, so one that was moved gets a new environment.
STALE := $(shell test -x $(BIN)/python && test "$$(cat .venv/checkout 2>/dev/null)" = "$$(pwd -P)" || echo stale)

# Installs a hashed lock and shows one moving line instead of pip's pages; what pip says on stderr stays visible.
define install
@total=$$(grep -c '^[a-z0-9].*==' $(1)); echo "Installing from $(1), up to $$total packages ..."; \
tty=0; [ -t 1 ] && tty=1; \
{ $(BIN)/python -m pip install --disable-pip-version-check --no-input --require-hashes -r $(1) || echo 'pip has failed'; } | \
awk -v tty=$$tty -v total=$$total \
	'/^(Collecting|Processing) / { done++; sub(".*/", "", $$2); if (tty) { printf "\r\033[K  %d of %d  %s", done, total, $$2; fflush() } } \
	/^Installing collected/ { if (tty) printf "\r\033[K"; print "  unpacking " done " packages ..."; fflush() } \
	/^pip has failed$$/ { failed = 1 } \
	END { if (failed) print "The install did not finish: pip says why above; run the same command again to go on."; exit failed }'
@$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps --no-build-isolation --editable .
endef

.PHONY: help run test coverage flue supervaizer check lint format types imports bench faults drill openapi pictures env lock clean FORCE

help: ## Show this list
	@echo "Usage: make TARGET"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' Makefile

run: .venv/installed ## Start Cairn with its own PostgreSQL, NATS and Valkey (options: ARGS="--help")
	@$(BIN)/cairn dev $(ARGS)

test: .venv/installed-dev $(SUPERVAIZER) ## Run the whole test suite (options: TESTS="tests/shape -x")
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS)

coverage: .venv/installed-dev $(SUPERVAIZER) ## The same with a report of branch coverage, which takes half as long again
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov --cov-report=term:skip-covered $(TESTS)

flue: .venv/installed-dev ## Run Flue's own suites and the adapter's tests against the service (also part of `make test`)
	$(BIN)/python -m pytest -s tests/flue

supervaizer: .venv/installed-dev $(SUPERVAIZER) ## Run the Supervaizer adapter's tests with the real supervaizer (also part of `make test`)
	$(BIN)/python -m pytest tests/supervaizer

check: lint types imports coverage ## Everything that must be green: lint, types, imports, and the tests with their coverage

lint: .venv/installed-dev ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	adapters/flue/run lint

format: .venv/installed-dev ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	adapters/flue/run format

types: .venv/installed-dev ## Check the types
	$(BIN)/mypy
	adapters/flue/run types

imports: .venv/installed-dev ## Check that every import points down the layers
	$(BIN)/lint-imports

bench: .venv/installed-dev ## Measure against raw asyncpg and the bare framework (options: ARGS="--help")
	$(BIN)/python -m benchmarks $(ARGS)

faults: .venv/installed-dev ## Lose nothing while NATS, Valkey and an API process are killed; five minutes (ARGS="--help")
	$(BIN)/python -m benchmarks.faults $(ARGS)

drill: .venv/installed-dev ## Dump a database, restore it, compare every row; refuse what is damaged (also part of `make test`)
	$(BIN)/python -m pytest -s -v tests/dumps

openapi: .venv/installed-dev ## Refresh docs/openapi.json from the service
	$(BIN)/cairn openapi > docs/openapi.json.new
	mv docs/openapi.json.new docs/openapi.json

pictures: .venv/installed-dev ## Draw the sample pictures of docs/pictures again
	$(BIN)/python -m tests.pictures.samples

env: .venv/installed ## Refresh .env.example from the settings
	$(BIN)/cairn settings > .env.example.new
	mv .env.example.new .env.example

lock: .venv/installed ## Resolve the locks again from pyproject.toml (UPGRADE=1 takes newer releases)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet 'uv>=0.9'
	$(LOCK) pyproject.toml --output-file requirements.lock
	$(LOCK) pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(BIN)/uv pip compile $(HASHED) tests/blobs/s3/requirements.in --output-file tests/blobs/s3/requirements.lock

clean: ## Remove .venv and caches; ./var, which holds the data of `make run`, stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov dist
	rm -rf adapters/flue/node_modules adapters/flue/.node adapters/flue/dist adapters/flue/*.tgz
	rm -rf adapters/supervaizer/.packages tests/webhooks/javascript/node_modules
	rm -rf tests/blobs/s3/.venv tests/blobs/s3/.lock
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pyvenv.cfg: $(if $(STALE),FORCE)
	@"$(PYTHON)" -c '$(SUPPORTED)' 2>/dev/null || { \
	echo "Cairn needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $$("$(PYTHON)" -V 2>/dev/null || echo "not there"): install one and name it, as in: make PYTHON=/path/to/python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	echo "$(PYTHON) has no venv module: install it (on Debian and Ubuntu: apt-get install python3-venv) and run make again." >&2; exit 1; }
	@echo "Creating .venv with $$("$(PYTHON)" -V) ..."
	@"$(PYTHON)" -m venv --clear .venv
	@pwd -P > .venv/checkout

.venv/installed: requirements.lock pyproject.toml .venv/pyvenv.cfg
	$(call install,requirements.lock)
	@touch $@

.venv/installed-dev: requirements-dev.lock pyproject.toml .venv/pyvenv.cfg
	$(call install,requirements-dev.lock)
	@touch $@ .venv/installed

$(SUPERVAIZER): adapters/supervaizer/requirements.lock .venv/installed-dev
	@$(BIN)/python -m tests.supervaizer.package
