"""What was attached a moment ago is there when the record that names it is appended, however old the rest is."""

from __future__ import annotations

from asyncio import create_task

import asyncpg
import httpx

from app.http.service import Service
from tests.conftest import Make
from tests.contract.script import attached
from tests.retention.aging import Run, age, left
from tests.waiting import held_up

OLD = {"conversations": {"max_age_days": 30}}
ATTACH = (
    "WITH path AS (SELECT number FROM stream_paths WHERE tenant_id = $1 AND path = $2), "
    "content AS (INSERT INTO contents (tenant_id, digest, size_bytes, chunk_bytes)"
    " VALUES ($1, sha256(''), 0, 1) RETURNING number) "
    "INSERT INTO attachments (tenant_id, path_number, id, content_number, conversation_id, mime_type)"
    " SELECT $1, path.number, 'late', content.number, 'c', 'text/plain' FROM path, content"
)


async def conversation(service: Service, client: httpx.AsyncClient, path: str) -> None:
    """One that nobody has appended to for long."""
    identity = {"agent_name": path, "instance_id": "i"}
    assert (await client.put("/v1/conversations", json={"path": path, "identity": identity})).status_code == 201
    for column in ("created_at", "updated_at"):
        await age(service, client, "conversation_streams", column)


async def test_it_stays_until_the_attachment_is_old_too(
    service: Service, client: httpx.AsyncClient, make: Make, run: Run
) -> None:
    await conversation(service, client, "p")
    put = await client.put(f"/v1/attachments{attached('p', 'a', b'new')}", content=b"new")
    assert put.status_code == 201
    told = await client.put("/v1/retention", json={"kinds": OLD, "dry_run": True})
    assert told.json()["would_leave"]["conversations"] == 0
    await run(OLD)
    assert await left(client, "/v1/conversations", "path") == ["p"]
    assert (await client.get("/v1/attachments?path=p&id=a&conversation_id=c")).content == b"new"
    await age(service, client, "attachments", "created_at")
    await run(OLD)
    assert await left(client, "/v1/conversations", "path") == []


async def test_what_is_being_attached_is_waited_for(
    service: Service, client: httpx.AsyncClient, make: Make, run: Run
) -> None:
    await conversation(service, client, "p")
    writer = await asyncpg.connect(service.ground.database.url)
    try:
        async with writer.transaction():
            await writer.execute(ATTACH, client.headers["x-test-tenant"], "p")
            leaving = create_task(run(OLD))
            await held_up(service)
    finally:
        await writer.close()
    await leaving
    assert await left(client, "/v1/conversations", "path") == ["p"]
    assert await left(client, "/v1/attachments/references?path=p") == ["late"]


async def test_what_is_attached_again_is_new(service: Service, client: httpx.AsyncClient, make: Make, run: Run) -> None:
    attachment = f"/v1/attachments{attached('p', 'a', b'old')}"
    assert (await client.put(attachment, content=b"old")).status_code == 201
    await conversation(service, client, "p")
    await age(service, client, "attachments", "created_at")
    assert (await client.put(attachment, content=b"old")).status_code == 200
    await run(OLD)
    assert await left(client, "/v1/conversations", "path") == ["p"]


async def test_a_checkpoint_without_a_conversation_leaves_when_it_is_old(
    service: Service, client: httpx.AsyncClient, run: Run
) -> None:
    await conversation(service, client, "pinned")
    assert (await client.put("/v1/pins/conversation/pinned")).status_code == 201
    assert (await client.delete("/v1/conversations?path=pinned")).status_code == 204
    for path in ("old", "o2", "o3", "pinned", "o4", "new"):
        put = await client.put(
            f"/v1/conversations/checkpoint?path={path}",
            json={"offset": "0000000000000000_0000000000000000", "incarnation": "i", "format_version": 1, "data": {}},
        )
        assert put.status_code == 201, put.text
        if path != "new":
            await age(service, client, "conversation_checkpoints", "updated_at")
    job = await run(OLD)
    assert job["counts"] == {"conversation_checkpoints": 4}
    found = [(await client.get(f"/v1/conversations/checkpoint?path={p}")).status_code for p in ("old", "pinned", "new")]
    assert found == [404, 200, 200]
