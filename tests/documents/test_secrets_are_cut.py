"""What lies at a secret path is nowhere: not in a row, an index, a revision, a kept answer, an event, or any read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.bus.hints import EmbeddedHints
from app.db.sql import Statement
from app.documents import collection_store
from app.events.jobs import sequencer
from app.http.service import Service
from app.surface import KINDS
from tests.conftest import ADMIN_KEY
from tests.webhooks.pipeline import delivering
from tests.webhooks.receiving import receiving

CANARY = "canary-51b7"
CASE = "/v1/documents/Case/c1"
PATHS = ["/account/api_key", "/tools/*/env"]
DEEP = "/deep" * 32
BODY = b'{"account": {"id": 1.0, "api_key": "%b"}, "tools":[{"env":{"K":"%b"},"n":1}, 2] }'
CUT = b'{"account": {"id": 1.0}, "tools":[{"n":1}, 2] }'
JSON = {"content-type": "application/json"}


def with_canary(text: bytes) -> bytes:
    return text.replace(b"%b", CANARY.encode())


async def everywhere(service: Service) -> list[str]:
    """The tables whose rows hold the canary, as text."""
    async with service.ground.database.writing() as transaction:
        connection = transaction.connection
        names = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        found = []
        for (name,) in names:
            sql = f'SELECT EXISTS (SELECT FROM "{name}" AS t WHERE t::text LIKE $1)'
            if await connection.fetchval(sql, f"%{CANARY}%"):
                found.append(name)
        return found


async def carry_out(service: Service) -> None:
    await drain(JobRunner(KINDS, 60, EmbeddedHints()).run, service.ground.database)


async def test_nothing_of_a_secret_is_kept(
    client: httpx.AsyncClient, service: Service, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    await client.put("/v1/documents/Case", json={"secret_paths": PATHS, "history": 5})
    sent = with_canary(BODY)
    keyed = {**JSON, "idempotency-key": "k"}
    answers = [await client.put(f"{CASE}?include=body", content=sent, headers=keyed) for _ in range(2)]
    answers.append(await client.put(CASE, content=sent, headers=JSON))
    for merge in ("shallow", "rfc7396"):
        answers.append(await client.patch(f"{CASE}?merge={merge}&include=body", content=sent, headers=JSON))
    new = "/v1/documents/Case/c2?include=body"
    answers.append(await client.patch(new, content=sent, headers={**JSON, "idempotency-key": "p"}))
    answers.append(await client.put(CASE, content=sent[:-1], headers=JSON))
    answers.append(await client.patch(f"{CASE}?merge=shallow", content=b'["%b"]' % CANARY.encode(), headers=JSON))
    assert [answer.status_code for answer in answers] == [201, 201, 200, 200, 200, 201, 400, 422]
    await drain(sequencer(lambda _waited: None), service.ground.database)
    answers += [
        await client.get(CASE),
        await client.get(f"{CASE}/revisions?include=body"),
        await client.post("/v1/documents/Case/query?include=body", json={}),
        await client.get("/v1/events?include=body"),
    ]
    assert [answer.url.path for answer in answers if CANARY in answer.text] == []
    assert answers[-4].content == CUT
    assert await everywhere(service) == []
    out, err = capfd.readouterr()
    assert CANARY not in out + err + caplog.text
    found = await client.post("/v1/documents/Case/query", json={"contains": {"account": {"api_key": CANARY}}})
    assert found.json()["items"] == []


async def arranged(client: httpx.AsyncClient, count: int) -> None:
    """Documents with the canary, each with a revision that has it too."""
    await client.put("/v1/documents/Case", json={"history": 2})
    for n in range(count):
        for _ in range(2):
            await client.put(f"/v1/documents/Case/{n}", content=with_canary(BODY), headers=JSON)


async def test_a_path_that_is_named_later_cuts_what_is_there_at_once(
    client: httpx.AsyncClient, service: Service
) -> None:
    await arranged(client, 3)
    assert await everywhere(service) == ["documents", "document_revisions"]
    before = (await client.get("/v1/documents/Case/2")).headers["etag"]
    changed = await client.put("/v1/documents/Case", json={"secret_paths": PATHS})
    assert (changed.status_code, changed.json()["cutting"]) == (200, False)
    assert await everywhere(service) == []
    read = await client.get("/v1/documents/Case/2")
    assert (read.content, read.headers["etag"]) == (CUT, before)
    found = await client.post("/v1/documents/Case/query", json={"contains": {"account": {"id": 1}}})
    assert len(found.json()["items"]) == 3


async def test_a_path_that_is_named_later_cuts_what_webhooks_were_told(clone: Callable[[], Awaitable[str]]) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        given = {"url": receiver.url, "event_types": ["document.*"], "include": ["body"]}
        assert (await client.post("/v1/webhooks", json=given)).status_code == 201
        for collection in ("Case", "Other"):
            path = f"/v1/documents/{collection}/c1"
            assert (await client.put(path, content=with_canary(BODY), headers=JSON)).status_code == 201
        await receiver.until(lambda: len(receiver.received) == 2)
        assert all(CANARY in str(each.says["data"]["body"]) for each in receiver.received)
        assert (await client.put("/v1/documents/Case", json={"secret_paths": PATHS})).status_code == 200
        rows = await service.ground.database.rows(Statement("SELECT body::text AS body FROM webhook_deliveries"))
        kept = {json.loads(row["body"])["data"]["collection"]: row["body"] for row in rows}
        assert (CANARY in kept["Case"], CANARY in kept["Other"]) == (False, True)
        assert CUT.decode() in kept["Case"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_no_read_shows_a_secret_before_the_job_has_cut_it(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    monkeypatch.setattr(collection_store, "ROWS_MAX", 2)
    # Nothing is cut at once, or no read would have anything to hide.
    monkeypatch.setattr(collection_store, "STEPS_AT_ONCE", 0)
    await arranged(client, 5)
    accepted = await client.put("/v1/documents/Case", json={"secret_paths": [*PATHS, DEEP]})
    assert accepted.status_code == 202, accepted.text
    assert (await client.get("/v1/documents/Case")).json()["cutting"] is True

    async def shown() -> list[httpx.Response]:
        probes: list[dict[str, Any]] = [
            {"contains": {"account": {"api_key": CANARY}}},
            {"contains": {"tools": [1, {"env": {}}]}},
            {"in": {"/account/api_key": [CANARY]}},
            {"in": {"/tools/0/env/K": [CANARY]}},
        ]
        for probe in probes:
            found = await client.post("/v1/documents/Case/query", json=probe)
            assert (found.status_code, found.json()["items"]) == (200, []), probe
        await drain(sequencer(lambda _waited: None), service.ground.database)
        return [
            *[await client.get(f"/v1/documents/Case/{n}") for n in range(5)],
            await client.get("/v1/documents/Case/4/revisions?include=body"),
            await client.post("/v1/documents/Case/query", json={"include": ["body"], "in": {"/account/id": [1]}}),
            await client.get("/v1/events?include=body"),
        ]

    before = await shown()
    assert [answer.url.path for answer in before if CANARY in answer.text] == []
    assert [answer.content for answer in before[:5]] == [CUT] * 5
    assert len(before[6].json()["items"]) == 5
    # What is merged into a body that is not cut yet is cut with it, and its revision by the job.
    await client.patch("/v1/documents/Case/4?merge=shallow", json={"more": 1})
    if is_cancelled:
        assert (await client.post(f"{accepted.headers['location']}/cancel")).status_code == 200
        await carry_out(service)
        assert [answer.url.path for answer in await shown() if CANARY in answer.text] == []
        # Naming the paths again begins again.
        assert (await client.put("/v1/documents/Case", json={"secret_paths": [*PATHS, DEEP]})).status_code == 202
    await carry_out(service)
    assert (await client.get("/v1/documents/Case")).json()["cutting"] is False
    assert await everywhere(service) == []
    assert [answer.url.path for answer in await shown() if CANARY in answer.text] == []


async def test_writers_and_a_path_that_is_named_leave_no_secret(client: httpx.AsyncClient, service: Service) -> None:
    await arranged(client, 2)

    async def write(n: int) -> None:
        await client.put(f"/v1/documents/Case/{n % 4}", content=with_canary(BODY), headers=JSON)
        await client.patch(f"/v1/documents/Case/{n % 4}", content=with_canary(BODY), headers=JSON)

    named = client.put("/v1/documents/Case", json={"secret_paths": PATHS})
    await asyncio.gather(*map(write, range(10)), named, *map(write, range(10, 20)))
    await carry_out(service)
    assert await everywhere(service) == []
    assert ADMIN_KEY not in CANARY
