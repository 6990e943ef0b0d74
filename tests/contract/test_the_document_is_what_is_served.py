"""Acceptance 10: the OpenAPI document is valid, committed, and true of every operation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.http.router import RESERVED_IDS
from app.http.service import Service
from tests.api_process import ROOT, ApiProcess, serving
from tests.conftest import ADMIN_KEY, http
from tests.contract.script import SCRIPT, arrange

HERE = Path(__file__).parent
SNAPSHOT = ROOT / "docs" / "openapi.json"
RUN_SECONDS = 600
EXAMPLES_MAX = 3
# Ids that only the answers to what was arranged tell.
OF_THE_RUN = (
    "job_id",
    "letter_id",
    "replayed_letter_id",
    "deleted_letter_id",
    "delivery_id",
    "incarnation",
    "backup_id",
    "unused_backup_id",
)
SERVED = re.compile(r'cairn_http_requests_total\{method="(\w+)",route="([^"]+)",status="2\d\d"\}')


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    """The document as it is served."""
    answer = await client.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.timeout(60)
async def test_others_are_answered_while_it_is_made(fresh: Service) -> None:
    async with http(fresh) as client:
        made = asyncio.create_task(client.get("/openapi.json"))
        answered = 0
        while not made.done():
            assert (await client.get("/healthz")).status_code == 200
            answered += 1
            # Neither side waits for anything else here.
            await asyncio.sleep(0)
        assert (await client.get("/openapi.json")).content == (await made).content
    # It is the work of a second; on the loop itself it would let one or two pass.
    assert answered > 20


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation, of every operation."""
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_the_committed_snapshot_is_what_is_served(document: dict[str, Any]) -> None:
    assert json.loads(SNAPSHOT.read_text()) == document, "refresh it with `make openapi` and read the difference"


def test_every_operation_is_described_with_its_errors(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for method, path, operation in operations(document):
        assert operation["description"], (method, path)
        wanted = (
            {"500", "503"} if operation.get("security") == [] else {"400", "401", "403", "422", "429", "500", "503"}
        )
        assert wanted <= operation["responses"].keys(), (method, path)
        for status, response in operation["responses"].items():
            if status[0] in "45":
                assert list(response["content"]) == ["application/problem+json"], (method, path, status)
                assert response["content"]["application/problem+json"]["examples"], (method, path, status)
        if method != "GET":
            assert {"$ref": "#/components/parameters/Idempotency-Key"} in operation["parameters"], (method, path)


def test_every_group_of_operations_says_what_it_is_about(document: dict[str, Any]) -> None:
    described = {tag["name"]: tag["description"] for tag in document["tags"]}
    assert described.keys() == {tag for _, _, operation in operations(document) for tag in operation["tags"]}
    assert all(description.endswith(".") for description in described.values())


async def prepared(api: ApiProcess, database_url: str) -> dict[str, str]:
    """The environment of the run: a tenant with a record, its key, and the operator's."""
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers) as operator:
        assert (await operator.put("/v1/tenants/acme", json={})).status_code == 201
        key = {"name": "main", "scopes": ["admin", "*:read", "*:write"]}
        made = await operator.post("/v1/api-keys", json=key, headers={"x-tenant-id": "acme"})
    key_text = made.json()["key"]
    async with httpx.AsyncClient(base_url=api.url, headers={"authorization": f"Bearer {key_text}"}) as client:
        ids = await arrange(client, "acme", database_url)
    # Coverage is measured in the service, not in what tries it.
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
        "CAIRN_TEST_ADMIN_KEY": ADMIN_KEY,
        "CAIRN_TEST_KEY": key_text,
        **{f"CAIRN_TEST_{name.upper()}": ids[name] for name in OF_THE_RUN},
        "PYTHONPATH": str(ROOT),
    }


def tried(api: ApiProcess, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A run of all checks over all operations, with its own seed and bounds."""
    program = Path(sys.executable).with_name("schemathesis")
    for name in ("schemathesis.toml", "schemathesis_hooks.py"):
        shutil.copy(HERE / name, folder)
    return subprocess.run(
        [program, "run", f"{api.url}/openapi.json", "--checks", "all",
         "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES_MAX), "--no-color"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.timeout(RUN_SECONDS + 60)
async def test_the_service_keeps_every_promise_of_its_document(
    clone: Callable[[], Awaitable[str]], document: dict[str, Any], tmp_path: Path
) -> None:
    url = await clone()
    # No stream may outlast the question.
    with serving(url, http__live_stream_seconds=0.5, auth__cache_seconds=0.05) as api:
        run = tried(api, await prepared(api, url), tmp_path)
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
        async with httpx.AsyncClient(base_url=api.url) as client:
            served = set(SERVED.findall((await client.get("/metrics")).text))
    assert {(method, path) for method, path, _ in operations(document)} - served == set(), "never answered with 2xx"


async def test_every_read_answers_head_as_get_without_the_body(service: Service, client: httpx.AsyncClient) -> None:
    ids = await arrange(client, client.headers["x-test-tenant"], service.ground.database.url)
    for line in SCRIPT:
        if line.method != "GET" or line.route == "GET /metrics":
            continue
        got = await line.call(client, ids)
        head = await client.head(line.path(ids))
        assert (head.status_code, head.content) == (got.status_code, b""), line.route
        moving = {"x-request-id", "date"}
        assert [item for item in head.headers.items() if item[0] not in moving] == [
            item for item in got.headers.items() if item[0] not in moving
        ], line.route


async def test_a_transition_holds_the_precondition_that_the_document_names(
    service: Service, client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    ids = await arrange(client, client.headers["x-test-tenant"], service.ground.database.url)
    named = {
        f"{method} {path}"
        for method, path, operation in operations(document)
        if method == "POST" and {"$ref": "#/components/parameters/If-Match"} in operation["parameters"]
    }
    refused = set()
    for line in SCRIPT:
        if line.method == "POST" and "{" in line.route:
            stale = replace(line, headers={**line.headers, "If-Match": '"99"'})
            if (await stale.call(client, ids)).status_code == 412:
                refused.add(line.route)
    # The run is open and the submission ready: an exact repeat is answered whatever it names.
    repeated = {"POST /v1/evolution-runs/{run_id}/reopen", "POST /v1/submissions/{submission_id}/ready"}
    assert refused == named - repeated


async def test_a_method_that_a_path_does_not_answer_is_refused_with_those_it_does(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    for path, item in document["paths"].items():
        answered = {method.upper() for method in item} | ({"HEAD"} if "get" in item else set())
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            # A word beside ids is no id: where ids answer the method, it is refused as one.
            if method in answered or path.rpartition("/")[2] in RESERVED_IDS:
                continue
            answer = await client.request(method, path.replace("{", "").replace("}", ""))
            assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed"), (method, path)
            assert set(answer.headers["allow"].split(", ")) == answered, (method, path)
