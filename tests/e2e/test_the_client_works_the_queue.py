"""The client's calls about submissions against the running service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.client import AsyncCairn, Cairn, ConflictError, Json, NotFoundError, StaleAttemptError
from app.client.submission_bodies import SubmissionFields
from app.client.submission_models import Submission
from tests.e2e.conftest import Served

HOSTILE = Json(r'{"b": [1.0, 1e400, "cut \ud83d \u0000"],  "a": 9223372036854775809}')
HARD = 'ü ?#["/1'
RECORD = Json('{"id":"rec_1", "type":"submission_settled","submissionId":"sub_1","outcome":"completed"}')


def fields(submission_id: str, session_key: str = HARD, **more: object) -> SubmissionFields:
    return {
        "id": submission_id, "session_key": session_key, "kind": "direct", "agent": "a", "instance_id": "i",
        "input": HOSTILE, **more,
    }  # type: ignore[typeddict-item]  # fmt: skip


def admit(cairn: Cairn, *ids: str, session_key: str = HARD) -> None:
    for one in ids:
        cairn.submissions.admit(**fields(one, session_key))


def run(cairn: Cairn, submission_id: str = "sub_1") -> tuple[str, str]:
    claimed = cairn.submissions.claim(submission_id, f"att of {submission_id}", "w1", lease_seconds=60)
    assert claimed.attempt_id is not None
    return claimed.id, claimed.attempt_id


def ids_of(found: object) -> list[str]:
    return [one.id for one in found]  # type: ignore[attr-defined]


def test_a_submission_is_admitted_once_and_waits_for_its_turn(cairn: Cairn) -> None:
    assert cairn.submissions.any_unsettled() is False
    admitted = cairn.submissions.admit(**fields("sub/1", ready=False, priority=3))
    assert (admitted.kind, admitted.receipt) == ("submission", None)
    made = admitted.submission
    assert made is not None
    assert (made.input, made.status, made.session_key, made.priority) == (HOSTILE, "queued", HARD, 3)
    again = cairn.submissions.admit(**fields("sub/1", ready=False, priority=3))
    assert again.reply is not None
    assert again.reply.status == 200
    with pytest.raises(ConflictError, match="submission_conflict"):
        cairn.submissions.admit(**fields("sub/1", priority=4))
    admit(cairn, "sub_2")
    assert cairn.submissions.any_unsettled() is True
    assert ids_of(cairn.submissions.list(view="unready")) == ["sub/1"]
    with pytest.raises(ConflictError, match="not_ready"):
        run(cairn, "sub/1")
    assert cairn.submissions.ready("sub/1").canonical_ready_at is not None
    assert ids_of(cairn.submissions.list(view="runnable")) == ["sub/1"]
    with pytest.raises(ConflictError, match="not_head_of_session"):
        run(cairn, "sub_2")
    listed = list(cairn.submissions.list(session_key=HARD, status=["queued"], agent="a", limit=1, include=["input"]))
    assert [(one.id, one.input) for one in listed] == [("sub/1", HOSTILE), ("sub_2", HOSTILE)]
    assert cairn.submissions.settle_queued("sub/1", "failed", "no").error == "no"
    assert cairn.submissions.get("sub/1").input == HOSTILE
    with pytest.raises(NotFoundError):
        cairn.submissions.get("sub_3")


async def test_what_an_owner_does(served: Served, cairn: Cairn) -> None:
    admit(cairn, "sub_1", "sub_2")
    shown = datetime.now(UTC)
    lease = shown + timedelta(minutes=9)
    claimed = cairn.submissions.claim("sub_1", "att_1", "w1", lease_expires_at=lease, client_time=shown)
    assert (claimed.lease_expires_at, claimed.input, claimed.attempt_count) == (lease, HOSTILE, 1)
    assert ids_of(cairn.submissions.list(view="running")) == ["sub_1"]
    renewed = cairn.submissions.renew_leases("w1", ["sub_1", "sub_2"], lease_seconds=30)
    assert (renewed.renewed, renewed.skipped) == (["sub_1"], ["sub_2"])
    replaced = cairn.submissions.replace_attempt("sub_1", "att_1", "att_2", owner_id="w2", lease_seconds=60)
    assert (replaced.attempt_id, replaced.owner_id, replaced.input) == ("att_2", "w2", HOSTILE)
    with pytest.raises(StaleAttemptError):
        cairn.submissions.complete("sub_1", "att_1")
    timeout_at = shown + timedelta(hours=2)
    applied = cairn.submissions.input_applied("sub_1", "att_2", max_attempts=7, timeout_at=timeout_at)
    assert (applied.max_attempts, applied.timeout_at) == (7, timeout_at)
    assert cairn.submissions.request_recovery("sub_1", "att_2").recovery_requested_at is not None
    assert cairn.submissions.abort_session(HARD) == ["sub_1", "sub_2"]
    assert cairn.submissions.requeue("sub_1", "att_2", error="later").status == "queued"
    async with AsyncCairn(served.url, key=served.key) as other:
        [again] = await other.submissions.claim_next("w3", agent="a", limit=5, lease_seconds=60, wait_seconds=1)
        assert (again.id, again.attempt_count, again.input) == ("sub_1", 3, HOSTILE)
        assert again.attempt_id is not None
        assert (await other.submissions.fail("sub_1", again.attempt_id, "no")).error == "no"
        assert await other.submissions.claim_next("w3", agent="nobody", wait_seconds=1) == []


def test_a_settlement_is_reserved_and_made_final(cairn: Cairn) -> None:
    admit(cairn, "sub_1")
    attempt = run(cairn)
    reserved = cairn.submissions.reserve_settlement(*attempt, "rec_1", RECORD)
    assert (reserved.record, reserved.record_id, reserved.session_key) == (RECORD, "rec_1", HARD)
    assert [(one.submission_id, one.record) for one in cairn.submissions.settlements()] == [("sub_1", RECORD)]
    final = cairn.submissions.finalize_settlement(*attempt, "rec_1")
    assert (final.status, final.outcome) == ("settled", "completed")
    assert list(cairn.submissions.settlements()) == []


def test_what_waits_behind_a_submission_joins_it(cairn: Cairn) -> None:
    admit(cairn, "sub_1", "sub_2", "sub_3")
    submission_id, attempt_id = run(cairn)
    joining: list[Submission] = cairn.submissions.claim_joins(submission_id, attempt_id, "a")
    assert [(one.id, one.status, one.input) for one in joining] == [
        ("sub_2", "joining", HOSTILE), ("sub_3", "joining", HOSTILE),
    ]  # fmt: skip
    assert cairn.submissions.finalize_join(submission_id, "sub_2", attempt_id).status == "joined"
    assert cairn.submissions.revert_join(submission_id, "sub_3", attempt_id).status == "queued"
    assert ids_of(cairn.submissions.joins(submission_id)) == ["sub_2"]
    cairn.submissions.complete(submission_id, attempt_id)
    assert cairn.submissions.get("sub_2").outcome == "completed"
    assert ids_of(cairn.submissions.list(view="unsettled")) == ["sub_3"]


async def test_markers_stamps_and_dead_letters(served: Served, cairn: Cairn) -> None:
    marked = cairn.attempt_markers.put("sub/1", "att 1")
    assert cairn.attempt_markers.put("sub/1", "att 1").created_at == marked.created_at
    assert [one.attempt_id for one in cairn.attempt_markers.list()] == ["att 1"]
    cairn.attempt_markers.delete("sub/1", "att 1")
    assert list(cairn.attempt_markers.list()) == []
    assert list(cairn.dead_letters.list(source="submission")) == []
    async with AsyncCairn(served.url, key=served.key) as other:
        assert (await other.format_stamps.open("format_version", "1")).value == "1"
        assert (await other.format_stamps.put("format/old", "8")).value == "8"
        with pytest.raises(ConflictError, match="format_unsupported"):
            await other.format_stamps.open("format_version", "2", adopt={"format/old": ["8"]})
        assert (await other.format_stamps.get("format/old")).value == "8"
        assert [one.name async for one in other.format_stamps.list(limit=1)] == ["format/old", "format_version"]
        await other.format_stamps.delete("format/old")
        await other.format_stamps.delete("format_version")
    admit(cairn, "sub_1")
    with pytest.raises(ConflictError, match="unversioned_store"):
        cairn.format_stamps.open("format_version", "1")
