"""The record that settles a submission is reserved first, and stays the text that it is."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.payloads import problem, send
from tests.submissions.calls import Calls, record

NOW = "2026-01-05T10:00:00.000000Z"


@pytest.fixture
def calls(client: httpx.AsyncClient) -> Calls:
    return Calls(client)


async def test_a_settlement_is_reserved_then_final(calls: Calls, client: httpx.AsyncClient) -> None:
    await calls.running("a")
    await calls.admit("b")
    given = {"attempt_id": "at", "record_id": "r", "record": record()}
    assert await calls.refused("a/settlement/reserve", **{**given, "attempt_id": "x"}) == (
        409, "stale_attempt", "running",
    )  # fmt: skip
    obligation = await calls.done("a/settlement/reserve", **given)
    assert obligation == {
        "submission_id": "a", "session_key": "s", "attempt_id": "at", "record_id": "r", "record": record(),
    }  # fmt: skip
    assert await calls.done("a/settlement/reserve", **given) == obligation
    other = {**given, "record": record(extra=1)}
    assert await calls.refused("a/settlement/reserve", **other) == (409, "settlement_conflict", "terminalizing")
    assert (await client.get("/v1/settlements")).json()["items"] == [obligation]
    for call, more in (("complete", {}), ("fail", {"error": "x"}), ("requeue", {})):
        refused = await calls.refused(f"a/{call}", attempt_id="at", **more)
        assert refused == (409, "already_terminalizing", "terminalizing")
    assert (await calls.refused("b/claim", attempt_id="x", owner_id="o", lease_seconds=1))[1] == "not_head_of_session"
    final = {"attempt_id": "at", "record_id": "r"}
    for wrong, code in (({"attempt_id": "x"}, "stale_attempt"), ({"record_id": "x"}, "settlement_conflict")):
        assert await calls.refused("a/settlement/finalize", **{**final, **wrong}) == (409, code, "terminalizing")
    settled = await calls.done("a/settlement/finalize", **final, error_message="Not shown.")
    assert (settled["status"], settled["outcome"], settled["error"]) == ("settled", "completed", None)
    assert await calls.refused("a/settlement/finalize", **final) == (409, "already_settled", "settled")
    assert await calls.refused("a/settlement/reserve", **given) == (409, "already_settled", "settled")
    assert (await client.get("/v1/settlements")).json()["items"] == []
    await calls.claim("b")
    assert await calls.refused("b/settlement/finalize", **final) == (409, "not_terminalizing", "running")


async def test_what_joined_is_not_reserved_beside_its_host(calls: Calls) -> None:
    await calls.running("a")
    await calls.admit("b")
    await calls.done("a/joins/claim", attempt_id="at", agent="a")
    await calls.done("a/joins/b/finalize", attempt_id="at")
    await calls.done("a/settlement/reserve", attempt_id="at", record_id="r", record=record())
    refused = await calls.refused("b/settlement/reserve", attempt_id="at", record_id="s", record=record("s"))
    assert refused == (409, "already_terminalizing", "terminalizing")
    await calls.done("a/settlement/finalize", attempt_id="at", record_id="r")
    assert (await calls.shown("b"))["status"] == "settled"


@pytest.mark.parametrize(
    ("outcome", "error", "message", "told"),
    [
        ("failed", {"message": "In the record."}, None, "In the record."),
        ("failed", {"message": "In the record."}, "Said.", "Said."),
        ("aborted", None, None, "The submission aborted."),
        ("failed", "A text.", None, "A text."),
        ("failed", {"message": 1e3}, None, "The submission failed."),
        ("failed", {"message": "a\x00b\ud800c"}, None, "a\ufffdb\ufffdc"),
        ("completed", {"message": "Nothing."}, "Said.", None),
    ],
)
async def test_the_error_is_what_is_said_or_what_the_record_says(
    calls: Calls, outcome: str, error: Any, message: str | None, told: str | None
) -> None:
    await calls.running("a")
    body = json.dumps({"attempt_id": "at", "record_id": "r", "record": record(outcome=outcome, error=error)}).encode()
    reserved = await send(calls.client, "POST", "/v1/submissions/a/settlement/reserve", body)
    assert reserved.status_code == 200, reserved.text
    settled = await calls.done("a/settlement/finalize", attempt_id="at", record_id="r", error_message=message)
    assert (settled["outcome"], settled["error"]) == (outcome, told)


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":"r","outcome":"completed","\\ud800":"\\u0000 \\udfff","n":1e400,"i":' + b"9" * 5000 + b"}",
        b'{ "outcome" : "completed" ,"id":"\\u0072", "deep":' + b"[" * 500 + b"]" * 500 + b', "x": 1.0 }',
    ],
)
async def test_a_record_stays_the_text_that_it_is(calls: Calls, client: httpx.AsyncClient, text: bytes) -> None:
    await calls.running("a")
    body = b'{"attempt_id":"at","record_id":"r","record":' + text + b"}"
    path = "/v1/submissions/a/settlement/reserve"
    first, replay = [
        await client.post(path, content=body, headers={"content-type": "application/json", "idempotency-key": "k"})
        for _ in range(2)
    ]
    assert first.status_code == 200, first.text
    assert b'"record":' + text + b"}" in first.content
    assert replay.headers["idempotency-replayed"] == "true"
    assert replay.content == first.content
    assert (await send(client, "POST", path, body)).content == first.content
    assert text in (await client.get("/v1/settlements")).content
    same_value = body.replace(b'completed"', b'complet\\u0065d"')
    assert problem(await send(client, "POST", path, same_value)) == (409, "settlement_conflict")


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("[]", "/record"), ('{"outcome":"failed"}', "/record/id"), ('{"id":"x","outcome":"failed"}', "/record/id"),
        ('{"id":"r"}', "/record/outcome"), ('{"id":"r","outcome":["failed"]}', "/record/outcome"),
        ('{"id":"r","outcome":"done"}', "/record/outcome"), ("null", "/record"),
    ],
)  # fmt: skip
async def test_what_is_no_record_of_a_settlement_is_refused(
    calls: Calls, client: httpx.AsyncClient, text: str, pointer: str
) -> None:
    await calls.running("a")
    body = f'{{"attempt_id":"at","record_id":"r","record":{text}}}'.encode()
    refused = await send(client, "POST", "/v1/submissions/a/settlement/reserve", body)
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == pointer


async def test_settlements_are_paged_by_sequence(calls: Calls, client: httpx.AsyncClient) -> None:
    for number in range(5):
        await calls.running(f"x{4 - number}", session=f"s{number}")
        await calls.done(f"x{4 - number}/settlement/reserve", attempt_id="at", record_id="r", record=record())
    found: list[str] = []
    cursor = ""
    while True:
        page = (await client.get(f"/v1/settlements?limit=2{cursor}")).json()
        found += [item["submission_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == [f"x{4 - number}" for number in range(5)]
