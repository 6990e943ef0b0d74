"""A backup restores: into another tenant on another server, twice, over what is there, in place of it."""

from __future__ import annotations

import json

import httpx

from app.background.runner import drain
from app.backups.sections import sections
from app.db.sql import Statement
from app.events.jobs import sequencer
from app.http.service import Service
from app.webhooks.fanout import fan_out
from tests.backups.files import end_of, many, pieces_of, rows_of
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant
from tests.contract.script import attached


def test_every_section_is_populated(file: bytes) -> None:
    end = end_of(pieces_of(file))
    assert [one.name for one in end.manifest.sections] == [section.name for section in sections()]
    assert [one.name for one in end.manifest.sections if not one.rows] == []


async def test_a_restore_into_an_empty_server_gives_the_same_file(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        found = sections_of(await restored(fresh, client, file))
        again = await exported(fresh, client)

    before, after = end_of(pieces_of(file)).manifest, end_of(pieces_of(again)).manifest
    told, left = rows_of(pieces_of(file)), rows_of(pieces_of(again))
    for name in told:
        assert left.get(name, b"").split(b"\n") == told[name].split(b"\n"), name
    assert after.total_sha256 == before.total_sha256
    assert {name: counts["created"] for name, counts in found.items()} == {
        one.name: one.rows for one in before.sections if one.name != "artifact_bytes"
    }


async def test_b38_a_restore_may_be_repeated_and_keeps_what_is_there(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        first = sections_of(await restored(fresh, client, file))
        for on_conflict in ("fail", "overwrite"):
            again = sections_of(await restored(fresh, client, file, on_conflict=on_conflict))
            assert {name: counts["kept"] for name, counts in again.items()} == {
                name: counts["created"] for name, counts in first.items()
            }
        after = end_of(pieces_of(await exported(fresh, client))).manifest

    assert after.total_sha256 == end_of(pieces_of(file)).manifest.total_sha256


async def test_what_is_written_after_a_restore_gets_the_next_numbers(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, file))
        make = Make(client)
        before = (await client.get("/v1/invocations/i/messages?limit=1000")).json()["items"]
        message = await make.created("/v1/invocations/i/messages", role="r", payload=1)
        assert message["seq"] > max(one["seq"] for one in before if one["seq"] < 2**40)
        order = (await client.get("/v1/submissions?view=unsettled&limit=1000")).json()["items"]
        submission = await make.submission()
        assert submission["sequence"] > max(one["sequence"] for one in order)
        await make.created("/v1/memory/records", content="a new one", embedding=[1, 2, 3])
        assert (await client.put("/v1/memory/spaces/another", json={"model": "m", "dimensions": 3})).status_code == 201
        answer = await client.put(f"/v1/attachments{attached('p', 'new', b'new')}", content=b"new")
        assert answer.status_code == 201
        assert (await client.put("/v1/documents/col/new", json={})).status_code == 201
        last = (await client.post("/v1/documents/col/query", json={"limit": 1000})).json()["items"][-1]
        assert last["id"] == "new"
        path = {"path": "restored", "identity": {"agent_name": "a", "instance_id": "i"}}
        assert (await client.put("/v1/conversations", json=path)).status_code == 201
        claimed = await client.post("/v1/conversations/acquire", json={"path": "conv", "producer_id": "other"})
        assert claimed.status_code == 200, claimed.text
        events = (await client.get("/v1/events?after=now")).json()
        await drain(sequencer(lambda _waited: None), fresh.ground.database, limit=1000)
        told = (await client.get("/v1/events", params={"after": events["next_cursor"], "limit": 1000})).json()["items"]
        assert told
        assert told[0]["position"] == end_position(file) + 1


def end_position(file: bytes) -> int:
    """The position of the last event in a file."""
    return int(json.loads(rows_of(pieces_of(file))["event_heads"])["position"])


async def test_no_webhook_is_told_of_what_was_restored_and_the_next_change_is(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, file))
        hooks = Statement("SELECT count(*) AS n FROM webhook_deliveries WHERE ended_at IS NULL")
        await drain(fan_out(lambda: None), fresh.ground.database)
        assert (await fresh.ground.database.row(hooks))["n"] == 0
        await Make(client).workflow()
        await drain(sequencer(lambda _waited: None), fresh.ground.database, limit=1000)
        await drain(fan_out(lambda: None), fresh.ground.database)
        # Two webhooks are there, and hear of everything.
        assert (await fresh.ground.database.row(hooks))["n"] == 2


async def test_ten_thousand_restored_workflows_fire_no_webhook_and_the_next_change_does(
    file: bytes, fresh: Service
) -> None:
    async with await new_tenant(fresh) as client:
        hook = {"id": "own", "url": "http://127.0.0.1:9/hook", "event_types": ["workflow.*"]}
        assert (await client.post("/v1/webhooks", json=hook)).status_code == 201
        found = sections_of(await restored(fresh, client, many(file, "workflows", 10_000)))
        assert found["workflows"]["created"] == 10_000
        assert await _told(fresh) == 0
        changed = await client.patch("/v1/workflows/many%207", json={"name": "changed"})
        assert changed.status_code == 200
        assert await _told(fresh) == 1


async def _told(service: Service) -> int:
    """How many deliveries there are, once every event has its position."""
    database = service.ground.database
    await drain(sequencer(lambda _waited: None), database, limit=1000)
    await drain(fan_out(lambda: None), database)
    row = await database.row(Statement("SELECT count(*) AS n FROM webhook_deliveries WHERE ended_at IS NULL"))
    assert row is not None
    return int(row["n"])


async def test_b38_searches_and_constraints_are_as_before(
    source: tuple[Service, httpx.AsyncClient], file: bytes, fresh: Service
) -> None:
    service, client = source
    query = {"embedding": [1, 2, 2.5], "top_k": 10, "mode": "vector", "space": "space"}
    constraints = Statement(
        "SELECT c.conrelid::regclass::text || ' ' || c.conname || ' ' || pg_get_constraintdef(c.oid) AS told"
        " FROM pg_constraint AS c WHERE c.conrelid::regclass::text !~ '^(memory_vectors|events_p)_' ORDER BY 1"
    )
    async with await new_tenant(fresh) as other:
        sections_of(await restored(fresh, other, file))
        for body in (query, {"query": "9c41", "mode": "text", "top_k": 10}):
            before, after = [(await one.post("/v1/memory/search", json=body)).json() for one in (client, other)]
            assert before["items"]
            assert after["items"] == before["items"]
        told = [[row["told"] for row in await one.ground.database.rows(constraints)] for one in (service, fresh)]
        assert told[0] == told[1]
        # The partition of a restored space is like any other: what does not fit its size is refused.
        wrong = {"content": "x", "embedding": [1, 2]}
        assert (await other.post("/v1/memory/records", json=wrong)).status_code == 422
