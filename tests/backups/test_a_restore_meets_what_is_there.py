"""Rows that are there as others: they stay, or nothing is restored, or they become what the file says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.http.service import Service
from app.surface import KINDS
from tests.backups.files import end_of, pieces_of, rows_of
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant
from tests.waiting import held_up

COUNTED = Statement(
    "SELECT (SELECT count(*) FROM messages WHERE tenant_id = :t) + (SELECT count(*) FROM workflows"
    " WHERE tenant_id = :t) + (SELECT count(*) FROM document_revisions WHERE tenant_id = :t) AS n"
)

# What no attachment has is in no section, so only here it is seen that it goes.
ORPHANS = Statement(
    "SELECT count(*) AS n FROM contents AS c WHERE c.tenant_id = :t AND NOT EXISTS (SELECT FROM attachments AS a"
    " WHERE a.tenant_id = :t AND a.content_number = c.number)"
)


async def changed(client: httpx.AsyncClient) -> None:
    """Change what was restored: one row in each of several ways."""
    make = Make(client)
    for method, path, body in (
        ("PATCH", "/v1/workflows/w", {"name": "changed"}),
        ("DELETE", "/v1/workflows/empty", None),
        ("PUT", "/v1/documents/col/d", {"changed": 1}),
        ("PUT", "/v1/documents/col/d", {"changed": 2}),
        ("PATCH", "/v1/memory/documents/item", {"content": "changed"}),
        ("DELETE", "/v1/attachments?path=p", None),
    ):
        answer = await client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
    taken = await client.post("/v1/conversations/acquire", json={"path": "conv", "producer_id": "another"})
    assert taken.status_code == 200, taken.text
    # Another configuration of the user has the name of one that the file has.
    assert (await client.delete("/v1/mcp/configs/c")).status_code == 204
    await make.created("/v1/mcp/configs", id="other", user_id="u", name="srv", config={"command": "x"})
    await make.workflow(id="new", name="only here")


async def after_changes(fresh: Service, file: bytes, on_conflict: str) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    """A tenant with the file's rows, some of them changed; restored again, exactly as the preview told."""
    client = await new_tenant(fresh)
    sections_of(await restored(fresh, client, file))
    await changed(client)
    told = sections_of(await restored(fresh, client, file, "preview", on_conflict))
    job = await restored(fresh, client, file, "merge", on_conflict)
    if on_conflict != "fail":
        assert sections_of(job) == told
        for counts in told.values():
            assert counts["skipped"] >= counts["conflicts"]
    else:
        assert job["error"]["sections"] == {name: counts for name, counts in told.items() if counts["conflicts"]}
    return client, job


async def test_what_is_there_stays_where_conflicts_are_skipped(file: bytes, fresh: Service) -> None:
    client, job = await after_changes(fresh, file, "skip")
    found = sections_of(job)

    assert found["workflows"] == {
        "created": 1, "kept": 0, "changed": 0, "conflicts": 1, "skipped": 1, "conflict_ids": ["w"]
    } | {"kept": found["workflows"]["kept"]}  # fmt: skip
    assert (await client.get("/v1/workflows/w")).json()["name"] == "changed"
    assert (await client.get("/v1/workflows/empty")).status_code == 200
    assert (await client.get("/v1/documents/col/d")).json() == {"changed": 2}
    assert found["mcp_configs"]["conflict_ids"] == ["c"]
    assert found["conversation_streams"]["conflicts"] == 1
    # Not a batch of the file is put among those of another producer.
    assert found["conversation_batches"]["created"] == 0
    assert found["attachments"]["created"] >= 1
    assert (await client.get("/v1/attachments?path=p&id=large&conversation_id=c")).status_code == 200
    await client.aclose()


async def test_nothing_is_restored_where_a_conflict_is_to_fail(file: bytes, fresh: Service) -> None:
    client, job = await after_changes(fresh, file, "fail")

    assert (job["state"], job["error"]["code"]) == ("failed", "restore_conflict")
    assert (await client.get("/v1/workflows/empty")).status_code == 404
    await client.aclose()


async def test_what_is_there_becomes_what_the_file_says_where_it_is_overwritten(file: bytes, fresh: Service) -> None:
    client, job = await after_changes(fresh, file, "overwrite")
    found = sections_of(job)

    assert found["workflows"]["changed"] == 1
    assert (await client.get("/v1/workflows/w")).json()["name"] != "changed"
    assert (await client.get("/v1/documents/col/d")).json() != {"changed": 2}
    assert found["mcp_configs"]["conflict_ids"] == ["c"]
    assert found["conversation_streams"]["changed"] == 1
    assert (await client.put("/v1/documents/col/d", json={"changed": 3})).status_code == 200
    assert len((await client.get("/v1/documents/col/d/revisions")).json()["items"]) == 2
    hits = await client.post("/v1/memory/search", json={"query": "changed", "mode": "text", "top_k": 10})
    assert hits.json()["items"] == []
    await client.aclose()


async def test_what_is_replaced_is_the_file_again(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, file))
        await changed(client)
        names = (await client.get("/v1/workflows")).json()
        foretold = sections_of(await restored(fresh, client, file, "replace", dry_run=True))
        assert (await client.get("/v1/workflows")).json() == names
        told = sections_of(await restored(fresh, client, file, "replace"))
        assert told == foretold
        after = end_of(pieces_of(await exported(fresh, client))).manifest
        orphans = await fresh.ground.database.row(ORPHANS, t=client.headers["x-test-tenant"])

    assert orphans is not None
    assert orphans["n"] == 0
    before = end_of(pieces_of(file)).manifest
    same = {one.name: one.sha256 for one in before.sections}
    # Events and tokens are never given out twice, and artifacts leave by collection.
    assert {one.name for one in after.sections if same[one.name] != one.sha256} <= {"events", "event_heads", "leases"}
    # One of three was deleted, and another one made.
    assert (told["workflows"]["removed"], told["workflows"]["created"]) == (3, 3)


async def test_a_preview_writes_nothing(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        job = await restored(fresh, client, file, "preview")
        assert sections_of(job)["messages"]["created"] > 0
        count = await fresh.ground.database.row(COUNTED, t=client.headers["x-test-tenant"])
        assert count is not None
        assert count["n"] == 0
        assert (await client.get("/v1/artifacts")).json()["items"] == []


@pytest.mark.parametrize("mode", ["merge", "preview"])
async def test_another_tenant_of_the_same_server_gets_what_this_one_has(
    source: tuple[Service, httpx.AsyncClient], file: bytes, mode: str
) -> None:
    service, _ = source
    async with await new_tenant(service) as other:
        found = sections_of(await restored(service, other, file, mode))
        assert sum(counts["kept"] for counts in found.values()) == 0
        assert (await other.get("/v1/workflows/w")).status_code == (200 if mode == "merge" else 404)


async def test_bytes_that_a_file_only_refers_to_have_to_be_there(
    source: tuple[Service, httpx.AsyncClient], fresh: Service
) -> None:
    service, client = source
    file = await exported(service, client, artifacts="references")
    hashes = [one["hash"] for one in (await client.get("/v1/artifacts")).json()["items"]]
    async with await new_tenant(fresh) as other:
        job = await restored(fresh, other, file)
        assert (job["state"], job["error"]["code"]) == ("failed", "artifact_missing")
        assert job["error"]["hash"] in hashes
        assert (await other.get("/v1/artifacts")).json()["items"] == []
        # As a copy of the bucket would have it.
        for name in hashes:
            content = (await client.get(f"/v1/artifacts/{name}")).content
            await fresh.ground.blobs.put(other.headers["x-test-tenant"], name, _once(content))
        assert sections_of(await restored(fresh, other, file))["artifacts"]["created"] == len(hashes)
        for name in hashes:
            assert (await other.get(f"/v1/artifacts/{name}")).status_code == 200
        assert sections_of(await restored(fresh, other, file))["artifacts"]["kept"] == len(hashes)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


@asynccontextmanager
async def in_the_way(fresh: Service, tenant_id: str) -> AsyncIterator[asyncpg.transaction.Transaction]:
    """A transaction of somebody else, who has made a row with a key of the file and has not committed."""
    connection = await asyncpg.connect(fresh.ground.database.url)
    try:
        other = connection.transaction()
        await other.start()
        await connection.execute("INSERT INTO workflows (tenant_id, id) VALUES ($1, 'w')", tenant_id)
        yield other
    finally:
        await connection.close()


async def test_what_another_writes_meanwhile_is_decided_anew(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client, in_the_way(fresh, client.headers["x-test-tenant"]) as other:
        restoring = asyncio.ensure_future(restored(fresh, client, file, on_conflict="skip"))
        await held_up(fresh)
        await other.commit()
        found = sections_of(await restoring)
        assert found["workflows"]["conflict_ids"] == ["w"]
        assert (await client.get("/v1/workflows/w")).json()["name"] is None


async def test_nothing_is_restored_into_a_tenant_that_was_closed_meanwhile(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        tenant_id, database = client.headers["x-test-tenant"], fresh.ground.database
        async with in_the_way(fresh, tenant_id) as other:
            restoring = asyncio.ensure_future(restored(fresh, client, file))
            await held_up(fresh)
            await database.rows(Statement("UPDATE tenants SET closed_at = now() WHERE tenant_id = :t"), t=tenant_id)
            await other.rollback()
            # What it answers by then is that the tenant is closed.
            await restoring
        ended = Statement("SELECT state, error ->> 'code' AS code FROM jobs WHERE tenant_id = :t")
        (job,) = await database.rows(ended, t=tenant_id)
        assert (job["state"], job["code"]) == ("failed", "tenant_closed")
        (counted,) = await database.rows(COUNTED, t=tenant_id)
        assert counted["n"] == 0


async def test_items_are_found_in_the_space_that_is_active_here(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        space = {"model": "m", "dimensions": 2}
        assert (await client.put("/v1/memory/spaces/here", json=space)).status_code == 201
        found = sections_of(await restored(fresh, client, file, on_conflict="skip"))
        assert found["memory_spaces"]["conflict_ids"] == ["space"]
        assert found["memory_items"]["created"] > 0
        asked = {"query": "9c41", "mode": "text", "top_k": 10}
        hits = (await client.post("/v1/memory/search", json=asked)).json()["items"]
        assert {one["id"] for one in hits} == {"item", "unused"}
        answer = await client.patch("/v1/memory/documents/item", json={"content": "changed"})
        assert answer.status_code == 200, answer.text


async def test_vectors_of_another_model_do_not_lie_in_a_space_of_its_name(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        for space in ("space", "unused"):
            body = {"model": "another", "dimensions": 2}
            assert (await client.put(f"/v1/memory/spaces/{space}", json=body)).status_code == 201
        found = sections_of(await restored(fresh, client, file, on_conflict="overwrite"))
        assert found["memory_spaces"]["conflict_ids"] == ["space", "unused"]
        assert found["memory_vectors"]["created"] == 0
        asked = {"query": "9c41", "mode": "text", "top_k": 10}
        assert (await client.post("/v1/memory/search", json=asked)).json()["items"]
        assert (await client.get("/v1/memory/spaces/space")).json()["model"] == "another"


@pytest.mark.parametrize("on_conflict", ["skip", "overwrite"])
async def test_what_is_secret_by_now_does_not_come_back(fresh: Service, on_conflict: str) -> None:
    async with await new_tenant(fresh) as client:
        path = "/v1/documents/rules"
        await client.put(path, json={"history": 2})
        for body in ({"key": "k1", "a": 1}, {"key": "k2", "a": 2}):
            await client.put(f"{path}/d", json=body)
        await client.put(f"{path}/kept", json={"key": "k3"})
        file = await exported(fresh, client, sections=["documents", "document_revisions"])
        await client.delete(path)
        await client.put(path, json={"secret_paths": ["/key"], "history": 2})
        await client.put(f"{path}/kept", json={"key": "k4", "a": 1})

        sections_of(await restored(fresh, client, file, on_conflict=on_conflict))
        secret = on_conflict == "skip"
        assert (await client.get(f"{path}/d")).json() == ({"a": 2} if secret else {"key": "k2", "a": 2})
        assert (await client.get(path)).json()["cutting"] is secret
        await drain(JobRunner(KINDS, 30, fresh.ground.hints).run, fresh.ground.database, limit=10)
        assert (await client.get(path)).json()["cutting"] is False
        again = rows_of(pieces_of(await exported(fresh, client, sections=["documents", "document_revisions"])))
    assert (b"k1" in again["document_revisions"]) is not secret
    assert (b"k2" in again["documents"]) is not secret
