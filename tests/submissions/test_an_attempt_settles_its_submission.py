"""What the owner of a running submission does with it: apply, recover, replace, give back, settle."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from app.http.service import Service
from app.submissions.watching import key_of
from tests.payloads import problem, send
from tests.submissions.calls import Calls, record

NOW = "2026-01-05T10:00:00.000000Z"


@pytest.fixture
def calls(client: httpx.AsyncClient) -> Calls:
    return Calls(client)


async def test_the_input_is_applied_once_and_what_it_says_is_kept_exactly(calls: Calls) -> None:
    await calls.running("a")
    for other in ("b", ""):
        assert await calls.refused("a/input-applied", attempt_id=other or "x") == (409, "stale_attempt", "running")
    applied = await calls.done(
        "a/input-applied", attempt_id="at", max_attempts=3, timeout_at="2031-01-01T00:00:00.123Z"
    )
    assert (applied["max_attempts"], applied["timeout_at"]) == (3, "2031-01-01T00:00:00.123000Z")
    assert applied["input_applied_at"] is not None
    assert await calls.done("a/input-applied", attempt_id="at", max_attempts=9) == applied
    assert await calls.shown("a") == applied
    assert "input" not in applied


async def test_recovery_is_asked_for_once(calls: Calls) -> None:
    await calls.running("a")
    first = await calls.done("a/recovery-request", attempt_id="at")
    assert first["recovery_requested_at"] is not None
    assert await calls.done("a/recovery-request", attempt_id="at") == first
    assert await calls.refused("a/recovery-request", attempt_id="other") == (409, "stale_attempt", "running")


async def test_a_submission_is_given_back_to_its_old_place(calls: Calls) -> None:
    before = await calls.running("a")
    await calls.admit("b")
    await calls.done("a/input-applied", attempt_id="at", max_attempts=3)
    assert await calls.refused("a/requeue", attempt_id="other") == (409, "stale_attempt", "running")
    back = await calls.done("a/requeue", attempt_id="at")
    cleared = ("attempt_id", "owner_id", "lease_expires_at", "input_applied_at", "started_at", "recovery_requested_at")
    assert {name: back[name] for name in cleared} == dict.fromkeys(cleared)
    kept = ("sequence", "timeout_at", "attempt_count", "canonical_ready_at")
    assert {name: back[name] for name in kept} == {name: before[name] for name in kept}
    assert (back["status"], back["max_attempts"], back["not_before"]) == ("queued", 3, None)
    assert await calls.refused("a/requeue", attempt_id="at") == (409, "stale_attempt", "queued")
    again = await calls.claim("a", "at2")
    assert (again["attempt_count"], again["timeout_at"]) == (2, before["timeout_at"])


async def test_one_that_is_given_back_for_later_blocks_its_session_until_then(calls: Calls) -> None:
    await calls.running("a")
    await calls.admit("b")
    back = await calls.done("a/requeue", attempt_id="at", delay_seconds=3600)
    assert back["not_before"] > back["updated_at"]
    claim = {"attempt_id": "x", "owner_id": "o", "lease_seconds": 9}
    assert (await calls.refused("a/claim", **claim))[1] == "not_due"
    assert (await calls.refused("b/claim", **claim))[1] == "not_head_of_session"


@pytest.mark.parametrize(
    ("fields", "reason"), [({"max_attempts": 1}, "attempts_exhausted"), ({"timeout_seconds": 1}, "time_exhausted")]
)
async def test_b12_what_has_nothing_left_is_settled_instead_and_its_session_goes_on(
    calls: Calls, fields: dict[str, Any], reason: str
) -> None:
    await calls.running("a", **fields)
    await calls.admit("b")
    if reason == "time_exhausted":
        await calls.done("a/input-applied", attempt_id="at", timeout_at="2020-01-01T00:00:00Z")
    settled = await calls.done("a/requeue", attempt_id="at", error="It exploded.")
    assert (settled["status"], settled["outcome"]) == ("settled", "failed")
    assert settled["error"].startswith("It exploded. No ")
    assert await calls.refused("a/requeue", attempt_id="at") == (409, "already_settled", "settled")
    await calls.claim("b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("the text is not there yet", "the text is not there yet."),
        ("Is it there?", "Is it there?"),
        ("Traceback\nKeyError: 'a'\n", "Traceback\nKeyError: 'a'."),
        (" ", "The attempt was given back."),
        (None, "The attempt was given back."),
    ],
)
async def test_why_it_is_given_up_is_said_in_sentences(calls: Calls, given: str | None, said: str) -> None:
    await calls.running("a", max_attempts=1)
    settled = await calls.done("a/requeue", attempt_id="at", error=given)
    assert settled["error"] == f"{said} No attempt is left of 1."


async def test_what_is_held_for_its_owner_always_goes_back(calls: Calls) -> None:
    await calls.running("a", max_attempts=1, on_lapse="hold")
    for attempt in range(3):
        assert (await calls.done("a/requeue", attempt_id="at"))["status"] == "queued"
        assert (await calls.claim("a"))["attempt_count"] == attempt + 2


async def test_another_attempt_takes_over(calls: Calls) -> None:
    before = await calls.running("a")
    await calls.done("a/input-applied", attempt_id="at")
    await calls.done("a/recovery-request", attempt_id="at")
    stale = {"attempt_id": "x", "next_attempt_id": "y"}
    assert await calls.refused("a/replace-attempt", **stale) == (409, "stale_attempt", "running")
    taken = await calls.done(
        "a/replace-attempt", attempt_id="at", next_attempt_id="at2", owner_id="p",
        lease_expires_at="2020-01-01T00:00:00.001Z", client_time=NOW,
    )  # fmt: skip
    assert (taken["attempt_id"], taken["attempt_count"], taken["owner_id"]) == ("at2", 2, "p")
    assert taken["lease_expires_at"] == "2020-01-01T00:00:00.001000Z"
    assert taken["started_at"] > before["started_at"]
    assert (taken["recovery_requested_at"], taken["timeout_at"]) == (None, before["timeout_at"])
    assert taken["input_applied_at"] is not None
    assert taken["input"] == {"n": 1}
    kept = await calls.done("a/replace-attempt", attempt_id="at2", next_attempt_id="at3")
    assert (kept["owner_id"], kept["lease_expires_at"]) == ("p", taken["lease_expires_at"])
    same = {"attempt_id": "at3", "next_attempt_id": "at3"}
    assert (await calls.refused("a/replace-attempt", **same))[:2] == (422, "invalid_input")


async def test_the_first_outcome_stays(calls: Calls) -> None:
    await calls.running("a")
    assert await calls.refused("a/complete", attempt_id="other") == (409, "stale_attempt", "running")
    failed = await calls.done("a/fail", attempt_id="at", error="First.")
    assert (failed["status"], failed["outcome"], failed["error"]) == ("settled", "failed", "First.")
    assert failed["settled_at"] is not None
    for call, more in (("complete", {}), ("fail", {"error": "First."}), ("requeue", {}), ("input-applied", {})):
        assert await calls.refused(f"a/{call}", attempt_id="at", **more) == (409, "already_settled", "settled")
    queued = {"outcome": "failed", "error": "x"}
    assert await calls.refused("a/settle-queued", **queued) == (409, "already_settled", "settled")
    assert await calls.shown("a") == failed


async def test_a_completed_submission_has_no_error_and_its_session_goes_on(calls: Calls) -> None:
    await calls.running("a")
    await calls.admit("b")
    done = await calls.done("a/complete", attempt_id="at")
    assert (done["outcome"], done["error"]) == ("completed", None)
    assert (await calls.claim("b"))["status"] == "running"


@pytest.mark.parametrize("ready", [True, False])
async def test_a_queued_submission_is_settled_without_an_attempt(calls: Calls, ready: bool) -> None:
    await calls.admit("a", ready=ready)
    await calls.admit("b")
    settled = await calls.done("a/settle-queued", outcome="aborted", error="Not any more.")
    assert (settled["status"], settled["outcome"], settled["error"]) == ("settled", "aborted", "Not any more.")
    assert settled["attempt_id"] is None
    assert await calls.refused("a/ready") == (409, "already_settled", "settled")
    await calls.claim("b")
    loses = {"outcome": "failed", "error": "x"}
    assert await calls.refused("b/settle-queued", **loses) == (409, "already_running", "running")
    assert (await calls.refused("unknown/settle-queued", **loses))[:2] == (404, "submission_not_found")


async def test_an_abort_asks_everything_of_a_session_once(calls: Calls) -> None:
    await calls.running("a")
    await calls.admit("b")
    await calls.admit("c", ready=False)
    await calls.admit("other", session="t", agent="b")
    asked = await calls.done("abort-session", session_key="s")
    assert asked == {"submission_ids": ["a", "b", "c"]}
    first = [await calls.shown(name) for name in "abc"]
    assert all(shown["abort_requested_at"] for shown in first)
    assert [shown["status"] for shown in first] == ["running", "queued", "queued"]
    assert await calls.done("abort-session", session_key="s") == asked
    assert [await calls.shown(name) for name in "abc"] == first
    assert (await calls.shown("other"))["abort_requested_at"] is None
    await calls.done("a/settlement/reserve", attempt_id="at", record_id="r", record=record())
    assert await calls.done("abort-session", session_key="s") == {"submission_ids": ["b", "c"]}
    assert await calls.done("abort-session", session_key="nobody's") == {"submission_ids": []}


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("complete", {}), ("fail", {"error": "x"}), ("requeue", {}), ("input-applied", {}), ("recovery-request", {}),
        ("replace-attempt", {"next_attempt_id": "y"}),
        ("settlement/reserve", {"record_id": "r", "record": record()}),
    ],
)  # fmt: skip
async def test_a_transition_holds_its_precondition(calls: Calls, call: str, body: dict[str, Any]) -> None:
    await calls.running("a")
    before = await calls.client.get("/v1/submissions/a")
    for stale in ('"99"', '"x"'):
        refused = await calls.post(f"a/{call}", {"if-match": stale}, attempt_id="at", **body)
        assert problem(refused) == (412, "precondition_failed")
        assert refused.json()["current_etag"] == before.headers["etag"]
    assert (await calls.client.get("/v1/submissions/a")).content == before.content
    done = await calls.post(f"a/{call}", {"if-match": before.headers["etag"]}, attempt_id="at", **body)
    assert done.status_code == 200, done.text
    after = await calls.client.get("/v1/submissions/a")
    assert done.headers["etag"] == after.headers["etag"] != before.headers["etag"]


@pytest.mark.parametrize(
    ("call", "body"),
    [("complete", {}), ("requeue", {}), ("replace-attempt", {"next_attempt_id": "y"}), ("fail", {"error": "x"})],
)
async def test_a_call_that_is_repeated_under_its_key_is_replayed(calls: Calls, call: str, body: dict[str, Any]) -> None:
    await calls.running("a")
    first, again = [await calls.post(f"a/{call}", {"idempotency-key": "k"}, attempt_id="at", **body) for _ in range(2)]
    assert first.status_code == 200, first.text
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotency-replayed"] == "true"


async def test_kept_answers_hold_no_payload(calls: Calls, service: Service) -> None:
    secret = f"payload {uuid.uuid4().hex}"
    await calls.running("a", input=secret)
    await calls.admit("b", input=secret)
    for number, (call, body) in enumerate(
        (
            ("replace-attempt", {"attempt_id": "at", "next_attempt_id": "at2"}),
            ("joins/claim", {"attempt_id": "at2", "agent": "a"}),
            ("settlement/reserve", {"attempt_id": "at2", "record_id": "r", "record": record(of=secret)}),
        )
    ):
        first, again = [await calls.post(f"a/{call}", {"idempotency-key": f"k{number}"}, **body) for _ in range(2)]
        assert secret in first.text
        assert again.content == first.content
    kept = await service.ground.database.rows(
        Statement("SELECT body FROM idempotency_keys WHERE tenant_id = :tenant_id"),
        tenant_id=calls.client.headers["x-test-tenant"],
    )
    assert len(kept) == 3
    assert not any(secret.encode() in row["body"] for row in kept)


@pytest.mark.parametrize("call", ["complete", "fail", "settle-queued", "finalize", "requeue"])
async def test_whoever_waits_for_work_is_told_of_what_comes_next(calls: Calls, service: Service, call: str) -> None:
    tenant_id = calls.client.headers["x-test-tenant"]
    await (calls.admit("a") if call == "settle-queued" else calls.running("a"))
    await calls.admit("b", agent="another")
    body: dict[str, Any] = {} if call == "settle-queued" else {"attempt_id": "at"}
    if call == "finalize":
        await calls.done("a/settlement/reserve", **body, record_id="r", record=record())
        call, body = "settlement/finalize", {**body, "record_id": "r"}
    more = {"fail": {"error": "x"}, "settle-queued": {"error": "x", "outcome": "failed"}}.get(call, {})
    agent = "a" if call == "requeue" else "another"
    with (
        service.ground.live.watcher.watch(key_of(tenant_id, agent)) as one,
        service.ground.live.watcher.watch(key_of(tenant_id, None)) as every,
    ):
        await calls.done(f"a/{call}", **body, **more)
        # It is rung before the answer is given.
        assert await one.wait(0.001)
        assert await every.wait(0.001)


async def test_an_error_that_no_text_can_hold_is_refused(calls: Calls) -> None:
    await calls.running("a")
    for text in (b'"\\u0000"', b'"\\ud800"'):
        body = b'{"attempt_id":"at","error":' + text + b"}"
        refused = await send(calls.client, "POST", "/v1/submissions/a/fail", body)
        assert problem(refused) == (422, "invalid_input")
        assert refused.json()["errors"][0]["pointer"] == "/error"
    assert (await calls.shown("a"))["status"] == "running"
