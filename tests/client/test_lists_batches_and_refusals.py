"""Lists are iterators, batches are all or nothing, refusals are exceptions: the same in both clients."""

from __future__ import annotations

import json
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

import pytest

from app.client import (
    AsyncCairn,
    Cairn,
    CairnError,
    ConflictError,
    CursorExpiredError,
    DatasetRecordNotFoundError,
    ForbiddenError,
    InvalidInputError,
    Json,
    NodeVersionMissingError,
    NotFoundError,
    PersistenceError,
    PreconditionFailedError,
    StaleAttemptError,
    UnauthenticatedError,
    UnreadableAnswerError,
    VersionNotFoundError,
    VersionPrunedError,
    WorkflowNotFoundError,
)
from tests.client.conftest import QUICK, Asked, ScriptedServer


def parameters(asked: Asked) -> dict[str, list[str]]:
    return parse_qs(urlsplit(asked.target).query)


def three_pages(asked: Asked) -> tuple[int, dict[str, str], bytes]:
    at = int(parameters(asked).get("cursor", ["0"])[0])
    following = str(at + 2) if at < 4 else None
    items = [{"id": f"inv_{n}"} for n in range(at, min(at + 2, 5))]
    return 200, {}, json.dumps({"items": items, "next_cursor": following, "total": 5}).encode()


def test_a_list_is_iterated_page_by_page_with_its_filters_kept(server: ScriptedServer) -> None:
    server.otherwise = three_pages
    with Cairn(server.url) as cairn:
        listing = cairn.invocations.list(
            status=["failed", "completed"], min_usd_cost=Decimal("0.000000001"), metadata={"a": 1},
            has_accuracy=True, limit=2, include=["input", "output"],
        )  # fmt: skip
        assert server.asked == []
        assert [found.id for found in listing] == [f"inv_{n}" for n in range(5)]
        assert listing.page().total == 5
    sent = [parameters(asked) for asked in server.asked[:3]]
    assert [one.pop("cursor", None) for one in sent] == [None, ["2"], ["4"]]
    assert sent == [
        {
            "status": ["failed", "completed"], "min_usd_cost": ["0.000000001"], "metadata": ['{"a":1}'],
            "has_accuracy": ["true"], "limit": ["2"], "include": ["input,output"],
        }
    ] * 3  # fmt: skip


async def test_the_async_list_is_the_same(server: ScriptedServer) -> None:
    server.otherwise = three_pages
    async with AsyncCairn(server.url) as cairn:
        listing = cairn.invocations.list(limit=2)
        assert [found.id async for found in listing] == [f"inv_{n}" for n in range(5)]
        assert [len(page.items) async for page in listing.pages()] == [2, 2, 1]


def feed_of_three(asked: Asked) -> tuple[int, dict[str, str], bytes]:
    at = int(parameters(asked).get("after", ["0"])[0])
    items = [{"id": f"e{at}", "type": "version.created", "data": {"n": at}}] if at < 3 else []
    return 200, {}, json.dumps({"items": items, "next_cursor": str(min(at + 1, 3))}).encode()


async def test_events_are_followed_from_a_cursor_without_a_gap(server: ScriptedServer) -> None:
    server.otherwise = feed_of_three
    with Cairn(server.url) as cairn:
        followed = cairn.events.follow(quiet_max_seconds=0.0)
        assert [(event.id, dict(event.data)) for event in followed] == [(f"e{n}", {"n": n}) for n in range(3)]
        assert [event.id for event in cairn.events.list(after="1")] == ["e1", "e2"]
    async with AsyncCairn(server.url) as cairn:
        found = [event.id async for event in cairn.events.follow(quiet_max_seconds=0.0, after="2")]
    assert found == ["e2"]


def test_a_batch_goes_as_one_request_and_settles_every_result(server: ScriptedServer) -> None:
    server.will_answer(
        200,
        b'{"results":[{"status":200,"headers":{"ETag":"\\"2\\""},"body":{"id":"n1","output":1.0}},'
        b'{"status":200,"headers":{},"body":{"items":[{"id":"m1","payload":"\\ud800"}],"next_cursor":null}}]}',
    )
    with Cairn(server.url) as cairn:
        batch = cairn.batch()
        ended = batch.node_invocations.end("inv/7", "n1", status="completed", output=Json("1.0"), include=["output"])
        listed = batch.messages.list("inv/7", role="user")
        with pytest.raises(RuntimeError, match="not been sent"):
            ended.result()
        batch.send()
    assert server.asked[0].body == (
        b'{"operations":[{"method":"POST","path":"/v1/invocations/inv%2F7/nodes/n1/end?include=output",'
        b'"body":{"status":"completed","output":1.0}},'
        b'{"method":"GET","path":"/v1/invocations/inv%2F7/messages?role=user"}]}'
    )
    assert ended.result().output == Json("1.0")
    assert ended.result().etag == '"2"'
    assert listed.result().items[0].payload == Json(rb'"\ud800"')


async def test_a_refused_batch_tells_which_operation_and_settles_nothing(server: ScriptedServer) -> None:
    server.will_refuse(409, "stale_attempt", index=1, attempt_id="att_3")
    async with AsyncCairn(server.url) as cairn:
        batch = cairn.batch()
        started = batch.invocations.start("inv_1")
        batch.invocations.heartbeat("inv_1")
        with pytest.raises(StaleAttemptError) as caught:
            await batch.send()
    assert caught.value.facts == {"index": 1, "attempt_id": "att_3"}
    with pytest.raises(RuntimeError):
        started.result()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "workflow_not_found", WorkflowNotFoundError),
        (404, "version_not_found", VersionNotFoundError),
        (404, "node_version_missing", NodeVersionMissingError),
        (404, "message_not_found", NotFoundError),
        (422, "invalid_input", InvalidInputError),
        (422, "idempotency_key_reused", InvalidInputError),
        (400, "bad_cursor", InvalidInputError),
        (413, "payload_too_large", InvalidInputError),
        (401, "unauthenticated", UnauthenticatedError),
        (403, "forbidden", ForbiddenError),
        (409, "version_conflict", ConflictError),
        (409, "stale_attempt", StaleAttemptError),
        (410, "cursor_expired", CursorExpiredError),
        (410, "version_pruned", VersionPrunedError),
        (412, "precondition_failed", PreconditionFailedError),
        (500, "persistence_error", PersistenceError),
    ],
)
def test_each_problem_code_is_its_own_exception(
    server: ScriptedServer, status: int, code: str, kind: type[CairnError]
) -> None:
    server.will_refuse(status, code, current_status="failed")
    with Cairn(server.url, retry=QUICK) as cairn, pytest.raises(PersistenceError) as caught:
        cairn.invocations.get("inv_1")
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.status, error.detail, error.request_id) == (code, status, "No.", "req_1")
    assert error.facts == {"current_status": "failed"}


def test_refusals_carry_their_facts(server: ScriptedServer) -> None:
    pointers = [{"pointer": "/items/1/seq", "message": "must be an integer"}]
    server.will_refuse(422, "invalid_input", errors=pointers)
    server.will_refuse(404, "dataset_record_not_found", missing_ids=["r2"])
    with Cairn(server.url) as cairn:
        with pytest.raises(InvalidInputError) as invalid:
            cairn.messages.record_many("inv_1", [{"role": "user"}])
        with pytest.raises(DatasetRecordNotFoundError) as missing:
            cairn.invocations.create(version_id="v", dataset_record_id="r2")
    assert invalid.value.errors == pointers
    assert missing.value.missing_ids == ["r2"]


def test_an_answer_that_is_not_ours_is_told_by_its_status(server: ScriptedServer) -> None:
    server.will_answer(418, b"<html>a teapot in between</html>")
    server.will_answer(200, b"<html>all is well</html>")
    with Cairn(server.url) as cairn:
        with pytest.raises(PersistenceError) as caught:
            cairn.workflows.get("wf_1")
        assert caught.value.code == "http_418"
        with pytest.raises(UnreadableAnswerError):
            cairn.workflows.get("wf_1")


def test_exists_asks_with_head_and_a_missing_version_is_no_error(server: ScriptedServer) -> None:
    server.will_answer(200)
    server.will_answer(404)
    server.will_answer(403)
    with Cairn(server.url) as cairn:
        assert cairn.versions.exists("v1") is True
        assert cairn.versions.exists("v2") is False
        with pytest.raises(ForbiddenError):
            cairn.versions.exists("v3")
    assert {asked.method for asked in server.asked} == {"HEAD"}


def test_deleting_with_what_is_below_answers_a_job(server: ScriptedServer) -> None:
    server.will_answer(202, {"id": "job_1", "state": "queued"}, Location="/v1/jobs/job_1")
    server.will_answer(204)
    with Cairn(server.url) as cairn:
        job = cairn.workflows.delete("wf_1", cascade=True)
        assert cairn.workflows.delete("wf_1") is None
    assert job is not None
    assert job.state == "queued"
    assert [asked.target for asked in server.asked] == ["/v1/workflows/wf_1?cascade=true", "/v1/workflows/wf_1"]
