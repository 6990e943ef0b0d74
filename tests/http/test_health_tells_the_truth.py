"""Alive, ready, capable: what the service says of itself, while its parts are up, busy, paused or gone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from app.db.migrate import migrate
from app.db.revision import revisions
from app.db.sql import Statement
from app.embedded import Servers, start_servers
from app.http.problem_pages import kinds
from app.http.service import Service
from app.settings import DatabaseSettings
from app.signing import Signer, holds, new_seed, public_key_of
from tests.conftest import ADMIN_KEY, database_url, http, new_tenant, running, settings_for
from tests.waiting import eventually

NOWHERE = "127.0.0.1:1"


async def test_every_part_is_shown_with_its_mode(servers: Servers, clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), redis={"url": servers.redis_url}, nats={"url": servers.nats_url})
    async with running(settings) as service, http(service) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        parts = answer.json()["components"]
        assert {name: (part["status"], part["mode"]) for name, part in parts.items()} == dict.fromkeys(
            ("postgres", "schema", "redis", "nats", "blobs"), ("up", "connected")
        )
        assert parts["schema"]["version"] == revisions()[-1]


async def test_parts_that_are_away_degrade_it_and_parts_that_nobody_configured_are_embedded(
    clone: Callable[[], Awaitable[str]],
) -> None:
    settings = settings_for(await clone(), redis={"url": f"redis://{NOWHERE}"})
    async with running(settings) as service, http(service) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        redis, nats = (answer.json()["components"][name] for name in ("redis", "nats"))
        assert (redis["status"], redis["mode"], "detail" in redis) == ("down", "degraded", True)
        assert (nats["status"], nats["mode"]) == ("up", "embedded")


async def test_the_schema_of_another_release_makes_it_unready_and_says_what_to_do(fresh: Service) -> None:
    async with http(fresh) as client:
        for revision, advice in (("0001", "run `cairn migrate`"), ("9999", "ahead of the code")):
            await fresh.ground.database.rows(Statement("UPDATE alembic_version SET version_num = :r"), r=revision)
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
            assert advice in answer.json()["components"]["schema"]["detail"]
            assert (await client.get("/healthz")).json() == {"status": "alive"}


async def test_b17c_a_busy_pool_does_not_make_it_unready(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), database={"pool_max": 2, "acquire_seconds": 0.2})
    async with (
        running(settings) as service,
        http(service, authorization=f"Bearer {ADMIN_KEY}") as client,
        service.ground.database.writing(),
        service.ground.database.writing(),
    ):
        assert (await client.get("/v1/tenants")).status_code == 503
        answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}


async def test_b17b_readiness_says_no_within_two_seconds_while_postgres_is_paused(tmp_path: Path) -> None:
    with start_servers(tmp_path, ephemeral=True, fast=True, nats=False, redis=False) as own:
        await migrated(own)
        async with running(settings_for(own.postgres_url)) as service, http(service) as client:
            assert (await client.get("/readyz")).status_code == 200
            paused = family(next(iter(own.pids().values())))
            for pid in paused:
                os.kill(pid, signal.SIGSTOP)
            try:
                for _ in range(2):
                    started = time.monotonic()
                    assert (await client.get("/readyz")).status_code == 503
                    assert time.monotonic() - started < 2
                    assert (await client.get("/healthz")).status_code == 200
            finally:
                for pid in paused:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await eventually(is_ready, "readiness")


async def test_b17b_a_request_is_answered_within_its_bound_while_postgres_is_paused(tmp_path: Path) -> None:
    with start_servers(tmp_path, ephemeral=True, fast=True, nats=False, redis=False) as own:
        await migrated(own)
        bounds = {"statement_seconds": 1, "acquire_seconds": 1}
        async with (
            running(settings_for(own.postgres_url, database=bounds)) as service,
            await new_tenant(service) as client,
        ):
            assert (await client.put("/v1/workflows/w", json={})).status_code == 201
            paused = family(next(iter(own.pids().values())))
            for pid in paused:
                os.kill(pid, signal.SIGSTOP)
            try:
                for method in ("PUT", "GET"):
                    async with asyncio.timeout(10):
                        answer = await client.request(method, "/v1/workflows/w", json={"name": "n"})
                    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            finally:
                for pid in paused:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

            async def answers() -> bool:
                return (await client.get("/v1/workflows/w")).status_code == 200

            await eventually(answers, "an answer")


async def migrated(own: Servers) -> None:
    await asyncio.to_thread(migrate, DatabaseSettings(url=own.postgres_url), report=lambda _line: None)  # type: ignore[arg-type]


def family(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


async def test_b17a_readiness_survives_that_the_server_ended_its_session(fresh: Service, servers: Servers) -> None:
    async with http(fresh) as client:
        assert (await client.get("/readyz")).status_code == 200
        name = fresh.ground.database.url.rsplit("/", 1)[1]
        admin = await asyncpg.connect(database_url(servers, "postgres"))
        try:
            await admin.fetch("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", name)
        finally:
            await admin.close()
        assert (await client.get("/readyz")).status_code == 200


async def test_capabilities_and_the_schema_need_a_key_and_tell_limits_and_decisions(
    service: Service, client: httpx.AsyncClient
) -> None:
    async with http(service) as stranger:
        for path in ("/v1/capabilities", "/v1/schema", "/v1/schema/decisions"):
            assert (await stranger.get(path)).status_code == 401
    told = (await client.get("/v1/capabilities")).json()
    assert told["parts"]["postgres"]["mode"] == "connected"
    limits = {"batch_operations": 1000, "memory_dimensions": 4000, "memory_top_k": 1000, "context_inline_bytes": 65536}
    assert {name: told["limits"][name] for name in limits} == limits
    assert told["signing_key"] is None
    assert told["embedder"] == {"configured": False, "space": None, "model": None, "dimensions": None}
    await client.put("/v1/memory/spaces/words", json={"model": "words-8", "dimensions": 8})
    active = {"configured": False, "space": "words", "model": "words-8", "dimensions": 8}
    assert (await client.get("/v1/capabilities")).json()["embedder"] == active
    schema = (await client.get("/v1/schema")).json()
    assert schema["current"] == schema["expected"] == revisions()[-1]
    decisions = (await client.get("/v1/schema/decisions")).json()["items"]
    assert "events-by-month" in {decision["id"] for decision in decisions}


async def test_capabilities_tell_under_which_key_the_service_signs(clone: Callable[[], Awaitable[str]]) -> None:
    seed = new_seed()
    settings = settings_for(await clone(), signing={"key": seed})
    async with running(settings) as service, http(service, authorization=f"Bearer {ADMIN_KEY}") as operator:
        told = (await operator.get("/v1/capabilities")).json()

    assert told["signing_key"] == public_key_of(seed)
    signature = Signer(base64.b64decode(seed)).sign(b"content")
    assert holds(told["signing_key"], signature["value"], b"content")
    assert not holds(told["signing_key"], signature["value"], b"other content")


async def test_metrics_count_requests_by_route_with_few_labels(client: httpx.AsyncClient) -> None:
    for n in range(3):
        await client.get(f"/v1/workflows/absent{n}")
    await client.request("BREW", "/v1/workflows")
    text = (await client.get("/metrics")).text
    assert 'cairn_http_requests_total{method="GET",route="/v1/workflows/{workflow_id}",status="404"}' in text
    assert "absent1" not in text
    assert "BREW" not in text
    assert 'cairn_database_connections{state="idle"}' in text


async def test_every_problem_code_has_a_page(service: Service) -> None:
    async with http(service) as client:
        index = await client.get("/problems")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        assert {"workflow_not_found", "cursor_expired", "job_ended"} <= set(kinds())
        for code in kinds():
            assert f'href="/problems/{code}"' in index.text
            page = await client.get(f"/problems/{code}")
            assert (page.status_code, code in page.text) == (200, True)
        assert (await client.get("/problems/nothing")).json()["code"] == "not_found"


async def test_who_opens_the_root_is_told_where_the_documentation_is(service: Service) -> None:
    async with http(service) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "GET /docs" in answer.json()["detail"]
        assert (await client.get("/docs")).status_code == 200


async def test_a_tenant_over_its_limit_is_told_when_to_come_back(service: Service, operator: httpx.AsyncClient) -> None:
    async with await new_tenant(service) as client:
        free = await client.get("/v1/workflows")
        assert "ratelimit" not in free.headers
        tenant = client.headers["x-test-tenant"]
        limit = {"requests_per_second": 1, "burst": 3}
        assert (await operator.put(f"/v1/tenants/{tenant}/limits", json=limit)).status_code == 200
        # The limit comes with the key, so another key sees it at once and this one when its cached row is old.
        key = await operator.post(
            "/v1/api-keys", json={"name": "n", "scopes": ["*:read"]}, headers={"x-tenant-id": tenant}
        )
        client.headers["authorization"] = f"Bearer {key.json()['key']}"
        answers = [await client.get("/v1/workflows") for _ in range(5)]
        assert [answer.status_code for answer in answers[:3]] == [200] * 3
        assert answers[0].headers["ratelimit-policy"] == '"tenant";q=3;w=3'
        assert answers[0].headers["ratelimit"] == '"tenant";r=2;t=1'
        refused = answers[-1]
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["ratelimit"].startswith('"tenant";r=0;')


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/problems"])
async def test_the_operations_routes_answer_head_and_refuse_other_methods(service: Service, path: str) -> None:
    async with http(service) as client:
        assert (await client.head(path)).status_code == 200
        refused = await client.post(path, json={})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
