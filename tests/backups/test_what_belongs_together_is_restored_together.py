"""What refers to each other, or says something only as a whole, comes out of a merge as the API would have left it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import asyncpg
import httpx
import pytest

from app.backups.sections import sections
from app.db.revision import revisions
from app.db.sql import Statement
from app.http.service import Service
from tests.backups.files import written
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant
from tests.submissions.calls import Calls
from tests.submissions.queue import settle
from tests.waiting import eventually

# What would wait for ever, in the queue of any tenant.
STUCK = """
    SELECT session_number, NULL AS id FROM submissions WHERE status <> 'settled'
    GROUP BY tenant_id, session_number HAVING count(*) FILTER (WHERE is_head) <> 1
    UNION ALL SELECT session_number, id FROM submissions AS s WHERE status IN ('joining', 'joined')
    AND NOT EXISTS (SELECT FROM submissions AS h WHERE h.tenant_id = s.tenant_id AND h.id = s.joined_into
    AND h.status <> 'settled')"""
WAITS = "SELECT pid FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"


@pytest.fixture
async def tenant(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with await new_tenant(service) as client:
        yield client


@pytest.fixture
async def target(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with await new_tenant(service) as client:
        yield client


async def done(client: httpx.AsyncClient, method: str, to: str, **body: Any) -> Any:
    """What a call answers that succeeds."""
    answer = await client.request(method, to, json=body or None)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


async def test_what_is_overwritten_may_descend_from_what_is_new(
    service: Service, tenant: httpx.AsyncClient, target: httpx.AsyncClient
) -> None:
    for client in (tenant, target):
        await Make(client).workflow(id="w")
    await Make(tenant).version("w", id="parent")
    await Make(tenant).version("w", id="child", operation="mutation", parent1_id="parent", dsl={})
    await Make(target).version("w", id="child", dsl={})

    file = await exported(service, tenant, sections=["versions"])
    sections_of(await restored(service, target, file, on_conflict="overwrite"))

    assert (await done(target, "GET", "/v1/versions/child"))["parent1_id"] == "parent"


@pytest.mark.parametrize("on_conflict", ["skip", "overwrite", "fail"])
async def test_a_generation_names_no_best_version_that_was_left_out(
    service: Service, tenant: httpx.AsyncClient, target: httpx.AsyncClient, on_conflict: str
) -> None:
    """The number of its generation is another one's here, so the version is left out with that."""
    for client, first in ((tenant, "first"), (target, "another")):
        await Make(client).created("/v1/evolution-runs", id="run")
        await Make(client).created("/v1/evolution-runs/run/generations", id=first, number=0)
    await Make(tenant).version(id="best", generation_id="first")
    await Make(tenant).created("/v1/evolution-runs/run/generations", id="second", number=1)
    await done(tenant, "POST", "/v1/generations/second/complete", best_version_id="best")

    file = await exported(service, tenant, sections=["versions"])
    job = await restored(service, target, file, on_conflict=on_conflict)
    if on_conflict == "fail":
        assert job["error"]["code"] == "restore_conflict", job
        return
    found = sections_of(job)
    assert (found["versions"]["skipped"], found["generations"]["created"]) == (1, 1)
    assert (await done(target, "GET", "/v1/generations/second"))["best_version_id"] is None


async def test_a_rule_that_comes_back_makes_secret_what_is_there(service: Service, tenant: httpx.AsyncClient) -> None:
    path = "/v1/documents/rules"
    await done(tenant, "PUT", path, secret_paths=["/key"])
    file = await exported(service, tenant, sections=["document_collections"])
    await tenant.put(path, json={"secret_paths": []})
    await done(tenant, "PUT", f"{path}/later", key="k", a=1)

    sections_of(await restored(service, tenant, file, on_conflict="overwrite"))

    assert await done(tenant, "GET", f"{path}/later") == {"a": 1}
    # It is the same collection, whether or not its documents are still being cut.
    assert sections_of(await restored(service, tenant, file))["document_collections"]["kept"] == 1


async def test_the_queue_goes_on_whatever_stood_in_it(service: Service, tenant: httpx.AsyncClient) -> None:
    calls, files = Calls(tenant), []
    await calls.running("host")
    await calls.admit("joins")
    await calls.admit("behind", agent="b")
    await calls.done("host/joins/claim", attempt_id="at", agent="a")
    files.append(await exported(service, tenant, sections=["submissions"]))
    await settle(service, tenant, "host", "running")
    files.append(await exported(service, tenant, sections=["submissions"]))
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        for first, second in (files, files[::-1]):
            for on_conflict in ("skip", "overwrite"):
                async with await new_tenant(service) as client:
                    sections_of(await restored(service, client, first))
                    if on_conflict == "skip":
                        # What the file alone has comes back behind what was settled meanwhile.
                        await connection.execute(
                            "DELETE FROM submissions WHERE tenant_id = $1 AND id = 'behind'",
                            client.headers["x-test-tenant"],
                        )
                    sections_of(await restored(service, client, second, on_conflict=on_conflict))
                    assert await connection.fetch(STUCK) == []
    finally:
        await connection.close()


async def test_a_session_counts_what_is_admitted_while_it_is_restored(
    service: Service, tenant: httpx.AsyncClient
) -> None:
    calls = Calls(tenant)
    await calls.admit("first")
    await calls.admit("behind")
    file = await exported(service, tenant, sections=["submissions"])
    await settle(service, tenant, "first")
    await settle(service, tenant, "behind")
    assert (await tenant.delete("/v1/submissions/behind")).status_code == 204
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        async with connection.transaction():
            number = await connection.fetchval(
                "UPDATE submission_sessions SET open_count = open_count + 1 WHERE tenant_id = $1 RETURNING number",
                tenant.headers["x-test-tenant"],
            )
            await connection.execute(
                "INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest,"
                " is_head, canonical_ready_at) VALUES ($1, 'new', $2, 'direct', 'a', 'i', '1', '', true, now())",
                tenant.headers["x-test-tenant"], number,
            )  # fmt: skip
            restoring = asyncio.ensure_future(restored(service, tenant, file, on_conflict="skip"))
            waits = Statement(WAITS.format(pid=connection.get_server_pid()))
            await eventually(partial(service.ground.database.row, waits), "the restore at the session")
        assert sections_of(await restoring)["submissions"]["created"] == 1
        assert await connection.fetchval("SELECT open_count FROM submission_sessions WHERE number = $1", number) == 2
        assert await connection.fetch(STUCK) == []
    finally:
        await connection.close()


async def test_no_part_of_one_is_put_into_its_namesake(
    service: Service, tenant: httpx.AsyncClient, target: httpx.AsyncClient
) -> None:
    """A checkpoint of a conversation, the members of a generation, the tools of a version."""
    for client, name in ((tenant, "theirs"), (target, "ours")):
        identity = {"agent_name": name, "instance_id": "i"}
        await done(client, "PUT", "/v1/conversations", path="p", identity=identity)
        await Make(client).created("/v1/evolution-runs", id="run")
        await Make(client).created("/v1/evolution-runs/run/generations", id="g", comment=name)
        await Make(client).version(id=name)
        await done(client, "PUT", "/v1/generations/g/members", items=[{"version_id": name}])
        await Make(client).created("/v1/mcp/servers", id="srv", publisher_id="p", slug="s", display_name="n")
        await Make(client).created("/v1/mcp/servers/srv/versions", id="v", version="1", release_notes=name)
        await Make(client).created("/v1/mcp/servers/srv/versions/v/tools", name=name, input_schema={})
    checkpoint = {"offset": "-1", "incarnation": "x", "format_version": 1, "data": 1}
    made = await tenant.put("/v1/conversations/checkpoint?path=p", json=checkpoint)
    names = ["conversation_streams", "generation_members", "mcp_tools"]
    file = await exported(service, tenant, sections=names)

    assert made.status_code == 201, made.text
    for on_conflict, name, status in (("skip", "ours", 404), ("overwrite", "theirs", 200)):
        sections_of(await restored(service, target, file, on_conflict=on_conflict))
        assert (await target.get("/v1/conversations/checkpoint?path=p")).status_code == status
        members = (await done(target, "GET", "/v1/generations/g/members"))["items"]
        tools = (await done(target, "GET", "/v1/mcp/servers/srv/versions/v/tools"))["items"]
        assert ([one["version_id"] for one in members], [one["name"] for one in tools]) == ([name], [name])


async def test_others_who_write_the_same_each_time_are_not_the_file_s_fault(fresh: Service) -> None:
    """Each row of the file is there, uncommitted, when the restore comes to it."""
    columns = next(section.columns for section in sections() if section.name == "workflows")
    row = dict.fromkeys(columns) | {"metadata": {}, "revision": 1, "digest": "\\x00", "name": "of the file"}
    at = "2026-01-05T10:00:00+00:00"
    rows = [row | {"id": f"w{number}", "created_at": at, "updated_at": at} for number in range(6)]
    file = written({"workflows": (columns, rows)}, schema_revision=revisions()[-1])
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await new_tenant(fresh))
        writers = [await asyncpg.connect(fresh.ground.database.url) for _ in range(5)]
        for number, writer in enumerate(writers):
            stack.push_async_callback(writer.close)
            await writer.execute("BEGIN")
            await writer.execute(
                "INSERT INTO workflows (tenant_id, id) VALUES ($1, $2)", client.headers["x-test-tenant"], f"w{number}"
            )
        restoring = asyncio.ensure_future(restored(fresh, client, file, on_conflict="skip"))
        for writer in writers:
            waits = Statement(WAITS.format(pid=writer.get_server_pid()))
            await eventually(partial(fresh.ground.database.row, waits), "the restore at the row")
            await writer.execute("COMMIT")
        job = await restoring
        # It is put off, and tried again.
        assert (job["state"], job["error"]["code"]) == ("running", "unavailable"), job
        assert (await client.get("/v1/workflows/w5")).status_code == 404


async def test_how_a_server_shows_bytes_makes_no_conflict(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        assert (await client.post("/v1/artifacts", content=b"bytes")).status_code == 201
        await Make(client).workflow(id="w")
        file = await exported(fresh, client, sections=["artifacts", "workflows"])
        connection = await asyncpg.connect(fresh.ground.database.url)
        try:
            name = await connection.fetchval("SELECT quote_ident(current_database())")
            await connection.execute(f"ALTER DATABASE {name} SET bytea_output = 'escape'")
        finally:
            await connection.close()
        found = sections_of(await restored(fresh, client, file))
    assert (found["artifacts"]["kept"], found["workflows"]["kept"]) == (1, 1)
