"""`cairn demo evolve`, killed with SIGKILL wherever it matters and started again, ends as if nothing had happened."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import httpx
import pytest
from typer.testing import CliRunner

from app.client import Cairn, NotFoundError
from app.commands.root import app
from app.demo.run import DemoRefused, start_or_take_up
from tests.conftest import ADMIN_KEY
from tests.e2e.between import EVOLVE, ROOT, RUN_SECONDS, Blow, door_to, record_of
from tests.e2e.conftest import Served

SMALL = ("--run", "search", "--population", "4", "--generations", "3", "--seed", "5")


def sent(method: str, end: str, holding: bytes = b"") -> Callable[[str, str, bytes], bool]:
    return lambda known, path, body: known == method and path.endswith(end) and holding in body


def any_request(method: str, path: str, body: bytes) -> bool:
    return True


START = sent("POST", "/evolution-runs")
VERSION = sent("POST", "/versions")
OPENED = sent("POST", "/search/generations")
BEGIN = sent("POST", "/batch", b"/heartbeat")
END = sent("POST", "/batch", b"/messages")
COMPLETION = sent("POST", "/batch", b"/members")
RUN_END = sent("POST", "/search/complete")
# In the order in which a search meets them; each kills the worker that the kill before made necessary.
KILLS = (
    Blow("after", START),
    Blow("after", VERSION, 2),
    Blow("before", END, 2),
    Blow("after", END),
    Blow("before", any_request, Random(20260105).randrange(2, 12)),
    Blow("before", COMPLETION),
    Blow("after", COMPLETION),
    Blow("after", OPENED),
    Blow("after", COMPLETION, 2),
    Blow("after", RUN_END),
)


@pytest.fixture
def unbroken(served_url: str, another_tenant: Served) -> Callable[..., dict[str, object]]:
    """The record of a search with the same settings in a tenant of its own, which nobody disturbs."""

    def searched(*arguments: str) -> dict[str, object]:
        command = [sys.executable, "-c", EVOLVE, "--url", served_url, "--key", another_tenant.key, *arguments]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS)
        with Cairn(served_url, key=another_tenant.key) as cairn:
            return record_of(cairn, arguments[1])

    return searched


@pytest.fixture
def another_tenant(served_url: str, served: Served) -> Served:
    tenant = f"{served.tenant}b"
    with Cairn(served_url, key=ADMIN_KEY) as operator:
        operator.tenants.ensure(tenant)
        made = operator.using(tenant=tenant).api_keys.create("tests", ["*:read", "*:write"])
    assert made.key is not None
    return Served(served_url, tenant, made.key)


def test_a_search_killed_at_every_kind_of_request_ends_as_an_unbroken_one(
    served: Served, cairn: Cairn, unbroken: Callable[..., dict[str, object]]
) -> None:
    with door_to(served.url) as door:
        for kill in KILLS:
            assert door.run(served.key, *SMALL, blow=kill) == -signal.SIGKILL, kill
        assert door.run(served.key, "--run", "search") == 0
    assert record_of(cairn, "search") == unbroken(*SMALL)


def test_ten_generations_of_twenty_killed_half_way_end_as_unbroken_ones(
    served: Served, cairn: Cairn, unbroken: Callable[..., dict[str, object]]
) -> None:
    command = [sys.executable, "-m", "app.cli", "demo", "evolve", "--run", "demo"]
    environment = {**os.environ, "CAIRN_URL": served.url, "CAIRN_KEY": served.key}

    def searched(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
        )  # fmt: skip

    with ThreadPoolExecutor(1) as beside:
        expected = beside.submit(unbroken, "--run", "demo")
        assert searched("--kill-after", "97").returncode == -signal.SIGKILL
        half = cairn.evolution_runs.get("demo")
        assert (half.status, half.generation_count, half.successful_invocation_count) == ("running", 5, 97)
        again = searched()
        assert again.returncode == 0, again.stderr
        assert "generation   4" in again.stdout
        assert "17 evaluations taken over" in again.stdout
        assert "generation   3" not in again.stdout
        found = record_of(cairn, "demo")
        assert found == expected.result()
    assert len(found["invocations"]) == 200  # type: ignore[arg-type]
    assert {kind for _, _, kind, *_ in found["versions"]} == {"init", "mutation", "crossover", "immigrant"}  # type: ignore[attr-defined]
    picture = httpx.get(
        f"{served.url}/v1/evolution-runs/demo/progress",
        headers={"authorization": f"Bearer {served.key}", "accept": "image/svg+xml"},
    )
    assert picture.content == (ROOT / "docs/pictures/demo-progress.svg").read_bytes(), "draw it as docs/demo.md says"
    traced = cairn.invocations.trace(cairn.invocations.list(run_id="demo", limit=1).page().items[0].id)
    assert [message.role for message in traced.messages] == ["user", "result"]
    assert [(node.node_id, node.status) for node in traced.nodes] == [("predict", "completed")]


def test_a_search_stopped_by_hand_is_interrupted_and_goes_on(
    served: Served, cairn: Cairn, unbroken: Callable[..., dict[str, object]]
) -> None:
    with door_to(served.url) as door:
        by_hand = Blow("after", END, 2, lambda worker: worker.send_signal(signal.SIGINT))
        assert door.run(served.key, *SMALL, blow=by_hand) == 130
        assert f"`cairn demo evolve --run search --url {door.url}` takes it up again." in door.said
        assert cairn.evolution_runs.get("search").status == "interrupted"
        assert door.run(served.key, "--run", "search") == 0
    found, expected = record_of(cairn, "search"), unbroken(*SMALL)
    assert found == expected


def test_a_search_whose_service_goes_away_says_how_to_go_on(served: Served, cairn: Cairn) -> None:
    with door_to(served.url) as door:
        gone = Blow("before", BEGIN, 2, lambda _: door.lock())
        assert door.run(served.key, *SMALL, blow=gone) == 1
        assert "Start it again with `make run` or `cairn dev`; then `cairn demo evolve --run search" in door.said
        assert "takes it up again." in door.said
    with door_to(served.url) as door:
        assert door.run(served.key, "--run", "search") == 0
    assert cairn.evolution_runs.get("search").status == "completed"


def test_a_search_that_is_over_says_so_and_a_name_may_hold_anything(served: Served) -> None:
    name = "what's $new"
    environment = {"CAIRN_URL": served.url, "CAIRN_KEY": served.key}
    command = ["demo", "evolve", "--run", name]
    first = CliRunner().invoke(app, [*command, "--population", "4", "--generations", "1"], env=environment)
    assert first.exit_code == 0, first.output
    quoted = shlex.quote(name)
    assert f"`cairn demo evolve --run {quoted}` takes it up again." in first.stdout
    assert f"\n  cairn runs progress {quoted}\n  cairn versions tree {quoted}\n  curl " in first.stdout
    again = CliRunner().invoke(app, [*command, "--kill-after", "1"], env=environment)
    assert again.exit_code == 0, again.output
    assert again.stdout.splitlines()[0] == f"Run {name} is complete; name another with --run."
    curl = again.stdout.splitlines()[-1]
    picture = subprocess.run(
        ["bash", "-c", curl.removesuffix(" > progress.svg")],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert picture.startswith("<svg"), picture


def test_a_search_stops_when_somebody_cancels_its_run(served: Served, cairn: Cairn) -> None:
    with door_to(served.url) as door:
        cancelled = Blow("before", BEGIN, 3, lambda _: cairn.evolution_runs.complete("search", "cancelled"))
        assert door.run(served.key, *SMALL, blow=cancelled) == 1
        assert "Somebody ended the run, it is cancelled: the search stops." in door.said
        run = cairn.evolution_runs.get("search")
        assert (run.status, run.invocation_count, run.successful_invocation_count) == ("cancelled", 2, 2)
        assert door.run(served.key, *SMALL) == 1
        assert "Somebody cancelled search" in door.said


def test_a_run_is_taken_up_only_as_it_was_started(served: Served, cairn: Cairn) -> None:
    otherwise = {"population": 4, "generations": 3, "seed": 5}
    nothing: dict[str, int | None] = dict.fromkeys(otherwise)
    plan = start_or_take_up(cairn, "r", {**nothing, "seed": 9}, otherwise)
    assert (plan.population, plan.generations, plan.seed) == (4, 3, 9)
    assert start_or_take_up(cairn, "r", nothing, {**otherwise, "seed": 1}) == plan
    with pytest.raises(DemoRefused, match="started with seed 9; leave --seed out"):
        start_or_take_up(cairn, "r", {**nothing, "seed": 1}, otherwise)
    cairn.evolution_runs.complete("r", "interrupted")
    assert start_or_take_up(cairn, "r", nothing, otherwise) == plan
    assert cairn.evolution_runs.get("r").status == "running"
    cairn.evolution_runs.complete("r", "cancelled")
    with pytest.raises(DemoRefused, match="Somebody cancelled r"):
        start_or_take_up(cairn, "r", nothing, otherwise)
    cairn.evolution_runs.create(id="other", evolution_type="gp")
    with pytest.raises(DemoRefused, match="a run of something else"):
        start_or_take_up(cairn, "other", nothing, otherwise)
    cairn.versions.create("wf_research", dsl=1, workflow={"name": "Research assistant"})
    with pytest.raises(DemoRefused, match="wf_research is a workflow that the demonstration did not make"):
        start_or_take_up(cairn, "wf_research", nothing, otherwise)
    with pytest.raises(NotFoundError):
        cairn.evolution_runs.get("wf_research")
