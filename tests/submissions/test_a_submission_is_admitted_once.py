"""Admission: replays, conflicts, receipts, exact inputs, and a sequence that follows the commits."""

from __future__ import annotations

from asyncio import create_task, gather
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.db.sql import Statement
from app.events.jobs import sequencer
from app.http.service import Service
from app.submissions import store
from tests.conftest import Make
from tests.payloads import PAYLOADS, problem, send
from tests.statements import one_connection, sent_by
from tests.waiting import held_up

PATH = "/v1/submissions"
BODY: dict[str, Any] = {
    "id": "s",
    "session_key": 'agent-session:["a","i","default","default"]',
    "kind": "dispatch",
    "agent": "a",
    "instance_id": "i",
    "accepted_at": "2026-01-05T10:00:00.123Z",
    "input": {"b": 1, "a": [1.0, "x"]},
}


def tenant(client: httpx.AsyncClient) -> str:
    return str(client.headers["x-test-tenant"])


async def settle(service: Service, client: httpx.AsyncClient, submission_id: str) -> None:
    """Settle a queued submission, as `settle-queued` does."""
    await service.ground.database.rows(
        Statement("SELECT FROM cairn_settle(:tenant_id, :id, 'queued', NULL, NULL, 'failed', 'x')"),
        tenant_id=tenant(client), id=submission_id,
    )  # fmt: skip


async def test_an_admission_answers_the_whole_submission(client: httpx.AsyncClient) -> None:
    made = await client.post(PATH, json=BODY)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    shown = made.json()["submission"]
    assert made.json()["kind"] == "submission"
    moments = ("canonical_ready_at", "created_at", "updated_at")
    assert all(shown[name] for name in moments)
    assert {name: value for name, value in shown.items() if name not in (*moments, "sequence")} == {
        **BODY,
        "accepted_at": "2026-01-05T10:00:00.123000Z",
        "status": "queued",
        "attempt_count": 0,
        "max_attempts": 10,
        "timeout_seconds": 3600,
        "priority": 0,
        "on_lapse": "requeue",
        **dict.fromkeys(
            ("attempt_id", "timeout_at", "owner_id", "lease_expires_at", "input_applied_at", "abort_requested_at",
             "recovery_requested_at", "started_at", "joined_into", "settled_at", "outcome", "error", "not_before")
        ),
    }  # fmt: skip
    read = await client.get(f"{PATH}/s")
    assert (read.json(), read.headers["etag"]) == (shown, '"1"')
    assert "input" not in (await client.get(f"{PATH}/s", params={"include": ""})).json()


async def test_the_same_again_is_a_replay_and_anything_else_a_conflict(client: httpx.AsyncClient) -> None:
    made = await client.post(PATH, json=BODY)
    again = await client.post(f"{PATH}?include=input", json=BODY)
    assert (again.status_code, again.content) == (200, made.content)
    for name, value in (
        ("input", {"a": [1.0, "x"], "b": 1}),
        ("accepted_at", "2026-01-05T10:00:00.124Z"),
        ("session_key", "k"),
        ("agent", "b"),
        ("instance_id", "j"),
        ("kind", "direct"),
        ("priority", 1),
        ("ready", False),
    ):
        refused = await client.post(PATH, json={**BODY, name: value})
        assert problem(refused) == (409, "submission_conflict"), name
        assert refused.json()["current_status"] == "queued"


async def test_a_replay_shows_the_submission_as_it_now_is(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json=BODY)
    claim = {"attempt_id": "att", "owner_id": "w", "lease_seconds": 30}
    claimed = await client.post(f"{PATH}/s/claim", json=claim)
    assert claimed.status_code == 200, claimed.text
    again = await client.post(PATH, json=BODY)
    assert (again.status_code, again.json()["submission"]) == (200, claimed.json())


async def test_a_removed_submission_leaves_a_receipt_that_admits_nothing(
    service: Service, client: httpx.AsyncClient
) -> None:
    await client.post(PATH, json=BODY)
    assert problem(await client.delete(f"{PATH}/s")) == (409, "not_settled")
    await settle(service, client, "s")
    assert problem(await client.delete(f"{PATH}/s", headers={"if-match": '"1"'})) == (412, "precondition_failed")
    assert (await client.delete(f"{PATH}/s")).status_code == 204
    assert problem(await client.get(f"{PATH}/s")) == (404, "submission_not_found")
    for key, body in (("one", BODY), ("two", {**BODY, "input": 2})):
        kept = await client.post(PATH, json=body, headers={"idempotency-key": key})
        assert (kept.status_code, kept.json()) == (
            200,
            {"kind": "retained_receipt",
             "receipt": {"submission_id": "s", "accepted_at": "2026-01-05T10:00:00.123000Z"}},
        )  # fmt: skip
    assert (await client.get(f"{PATH}/unsettled")).json() == {"unsettled": False}


async def test_b08_fifty_that_admit_one_submission_admit_one(service: Service, client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(PATH, json=BODY) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert len({answer.content for answer in answers}) == 1
    await settle(service, client, "s")
    row = await service.ground.database.row(
        Statement("SELECT open_count FROM submission_sessions WHERE tenant_id = :tenant_id"), tenant_id=tenant(client)
    )
    assert row is not None
    assert row["open_count"] == 0


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_the_input_comes_back_byte_for_byte(service: Service, client: httpx.AsyncClient, payload: bytes) -> None:
    text = b'{"session_key":"k","kind":"direct","agent":"a","instance_id":"i","id":"s","input":' + payload + b"}"
    made = await send(client, "POST", PATH, text)
    assert made.status_code == 201, made.text
    assert made.content.endswith(b',"input":' + payload + b"}}")
    assert (await client.get(f"{PATH}/s")).content.endswith(b',"input":' + payload + b"}")
    claimed = await client.post(f"{PATH}/s/claim", json={"attempt_id": "t", "owner_id": "w", "lease_seconds": 30})
    assert claimed.content.endswith(b',"input":' + payload + b"}")
    await drain(sequencer(lambda _waited: None), service.ground.database)
    told = (await client.get("/v1/events?include=input")).content
    assert told.count(b',"input":' + payload + b"}}") == 2


async def test_a_kept_answer_holds_no_copy_of_the_input_and_its_replay_shows_it(
    service: Service, client: httpx.AsyncClient
) -> None:
    body = {**BODY, "input": "a secret of some length"}
    claim = {"attempt_id": "t", "owner_id": "w", "lease_seconds": 30}
    for path, sent in ((PATH, body), (f"{PATH}/s/claim", claim)):
        made = await client.post(path, json=sent, headers={"idempotency-key": path})
        assert b"a secret of some length" in made.content
        again = await client.post(path, json=sent, headers={"idempotency-key": path})
        assert (again.headers["idempotency-replayed"], again.content) == ("true", made.content)
    rows = await service.ground.database.rows(
        Statement("SELECT body FROM idempotency_keys WHERE tenant_id = :tenant_id"), tenant_id=tenant(client)
    )
    assert len(rows) == 2
    assert not any(b"a secret" in row["body"] for row in rows)


async def test_a_batch_admits_and_claims_and_its_replay_shows_the_input_again(
    service: Service, client: httpx.AsyncClient
) -> None:
    claim = {"attempt_id": "t", "owner_id": "w", "lease_seconds": 30}
    body = {
        "operations": [
            {"method": "POST", "path": PATH, "body": {**BODY, "input": "a secret of some length"}},
            {"method": "POST", "path": f"{PATH}/s/claim", "body": claim},
        ]
    }
    made, again = [await client.post("/v1/batch", json=body, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert [result["status"] for result in made.json()["results"]] == [201, 200]
    assert made.content.count(b"a secret of some length") == 2
    assert (again.headers["idempotency-replayed"], again.json()) == ("true", made.json())
    rows = await service.ground.database.rows(
        Statement("SELECT body FROM idempotency_keys WHERE tenant_id = :tenant_id"), tenant_id=tenant(client)
    )
    assert not any(b"a secret" in row["body"] for row in rows)


async def test_an_image_of_fourteen_mebibytes_is_admitted_in_one_statement(
    clone: Callable[[], Awaitable[str]],
) -> None:
    body = {**BODY, "input": {"data": "A" * (14 * 1024 * 1024)}}
    async with one_connection(clone) as (service, client):
        async with sent_by(service) as sent:
            made = await client.post(PATH, json=body, headers={"idempotency-key": "k"})
        assert made.status_code == 201
        assert made.json()["submission"]["input"] == body["input"]
        assert len(sent) == 1
        assert (await client.get(f"{PATH}/s")).json()["input"] == body["input"]


async def test_of_a_session_the_second_to_lock_is_the_second_in_sequence(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    """The first defect of the reference: a number taken before the lock lets a later commit come first."""
    fields = {"kind": "direct", "agent": "a", "instance_id": "i", "input": b"1", "session_key": "k"}
    async with service.ground.database.writing() as first:
        await store.admit(first, tenant(client), {"id": "first", **fields})
        second = create_task(make.submission(id="second", session_key="k"))
        await held_up(service)
        assert not second.done()
    assert (await second)["sequence"] > (await client.get(f"{PATH}/first")).json()["sequence"]
    claims = await gather(
        *(
            client.post(f"{PATH}/{name}/claim", json={"attempt_id": name, "owner_id": "w", "lease_seconds": 30})
            for name in ("first", "second")
        )
    )
    assert [claim.status_code for claim in claims] == [200, 409]
    assert problem(claims[1]) == (409, "not_head_of_session")


async def test_two_of_a_session_never_run_whatever_writes_the_rows(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="first", session_key="k")
    await make.submission(id="second", session_key="k")
    await client.post(f"{PATH}/first/claim", json={"attempt_id": "t", "owner_id": "w", "lease_seconds": 30})
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        with pytest.raises(asyncpg.UniqueViolationError, match="uq_submissions_"):
            await connection.execute(
                "UPDATE submissions SET status = 'running', is_head = true, attempt_id = 'u', started_at = now()"
                " WHERE tenant_id = $1 AND id = 'second'",
                tenant(client),
            )
    finally:
        await connection.close()


@pytest.mark.parametrize("name", ["latest", "..", "unsettled", "a/b ä", "x" * 1024])
async def test_an_agent_and_an_instance_may_be_called_anything(client: httpx.AsyncClient, name: str) -> None:
    made = await client.post(PATH, json={**BODY, "agent": name, "instance_id": name})
    assert made.status_code == 201, made.text
    claimed = await client.post(f"{PATH}/claim-next", json={"owner_id": "o", "agent": name, "lease_seconds": 30})
    assert [item["agent"] for item in claimed.json()["items"]] == [name]
    long = await client.post(PATH, json={**BODY, "id": "t", "instance_id": "ä" * 513})
    assert (long.status_code, long.json()["errors"][0]["pointer"]) == (422, "/instance_id")
