"""A call is tried again when that may help, under one Idempotency-Key, and never without a bound."""

from __future__ import annotations

import pytest

from app.client import AsyncCairn, Cairn, ConflictError, RateLimitedError, Retry, UnavailableError, UnreachableError
from app.client.reply import Reply
from tests.client.conftest import QUICK, ScriptedServer


def keys_of(server: ScriptedServer) -> list[str]:
    return [asked.headers["idempotency-key"] for asked in server.asked]


def test_every_try_of_one_call_carries_the_same_idempotency_key(server: ScriptedServer) -> None:
    server.will_hang_up()
    server.will_refuse(503, "database_unavailable")
    server.will_refuse(409, "idempotency_in_progress")
    server.will_answer(201, {"id": "wf_1"}, Idempotency_Replayed="true")
    server.will_answer(201, {"id": "wf_2"})
    with Cairn(server.url, retry=QUICK) as cairn:
        first = cairn.workflows.create("wf_1")
        cairn.workflows.create("wf_2")
    keys = keys_of(server)
    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]
    assert first.reply is not None
    assert first.reply.replayed


async def test_the_async_client_tries_again_in_the_same_way(server: ScriptedServer) -> None:
    server.will_hang_up()
    server.will_refuse(429, "rate_limited")
    server.will_answer(201, {"id": "wf_1"})
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        assert (await cairn.workflows.create("wf_1")).id == "wf_1"
    assert len(set(keys_of(server))) == 1
    assert len(server.asked) == 3


def test_tries_end_at_their_bound(server: ScriptedServer) -> None:
    for _ in range(4):
        server.will_refuse(503, "database_unavailable")
    with Cairn(server.url, retry=QUICK) as cairn, pytest.raises(UnavailableError):
        cairn.workflows.get("wf_1")
    assert len(server.asked) == 4


def test_a_server_that_never_answers_is_unreachable_with_its_cause(server: ScriptedServer) -> None:
    for _ in range(4):
        server.will_hang_up()
    with Cairn(server.url, retry=QUICK) as cairn, pytest.raises(UnreachableError) as caught:
        cairn.workflows.get("wf_1")
    assert caught.value.status == 0
    assert caught.value.__cause__ is not None


def test_a_refusal_is_final(server: ScriptedServer) -> None:
    server.will_refuse(409, "workflow_conflict")
    with Cairn(server.url, retry=QUICK) as cairn, pytest.raises(ConflictError):
        cairn.workflows.create("wf_1")
    assert len(server.asked) == 1


def test_retry_after_is_waited_out(server: ScriptedServer) -> None:
    server.will_answer(429, b"", Retry_After="0")
    server.will_answer(200, {"id": "wf_1"})
    with Cairn(server.url, retry=QUICK) as cairn:
        assert cairn.workflows.get("wf_1").id == "wf_1"


def test_a_retry_after_beyond_the_bound_is_told_instead_of_waited_out(server: ScriptedServer) -> None:
    server.will_answer(429, b"", Retry_After="3600")
    with Cairn(server.url, retry=QUICK) as cairn, pytest.raises(RateLimitedError) as caught:
        cairn.workflows.get("wf_1")
    assert caught.value.retry_after_seconds == 3600
    assert len(server.asked) == 1


def test_pauses_double_up_to_a_ceiling_and_are_jittered() -> None:
    retry = Retry(attempt_max=10, first_pause_seconds=1.0, pause_max_seconds=4.0)
    busy = Reply(503, {}, b"")
    for attempt, ceiling in ((1, 1.0), (2, 2.0), (3, 4.0), (9, 4.0)):
        pauses = {retry.pause_seconds(attempt, busy) for _ in range(20)}
        assert len(pauses) > 1
        assert all(pause is not None and ceiling / 2 <= pause <= ceiling for pause in pauses)
    assert retry.pause_seconds(10, busy) is None


def test_a_key_given_by_the_caller_is_the_one_sent(server: ScriptedServer) -> None:
    server.will_hang_up()
    server.will_answer(200, {"id": "inv_1"}, ETag='"4"')
    with Cairn(server.url, key="k", tenant="acme", attempt=("sub/9", "att;2"), retry=QUICK) as cairn:
        ended = cairn.using(idempotency_key="mine", if_match='"3"', lease=("a/b;", 7)).invocations.end(
            "inv_1", status="completed"
        )
    assert ended.etag == '"4"'
    assert keys_of(server) == ["mine", "mine"]
    headers = server.asked[0].headers
    assert headers["authorization"] == "Bearer k"
    assert headers["x-tenant-id"] == "acme"
    assert headers["if-match"] == '"3"'
    assert headers["submission-attempt"] == "sub%2F9;att%3B2"
    assert headers["lease"] == "a%2Fb%3B;7"


def test_a_read_carries_no_idempotency_key(server: ScriptedServer) -> None:
    server.will_answer(200, {"id": "wf_1"})
    with Cairn(server.url) as cairn:
        cairn.workflows.get("wf_1")
    assert "idempotency-key" not in server.asked[0].headers
