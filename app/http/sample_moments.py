"""Answers that tell of another moment than the end of the story, and those that are no component."""

from __future__ import annotations

from typing import Any

from app.http.sample_story import BACKUP, BEAT, BEGUN, ENDED, EVENT, LEFT_OUT, MADE, TOLD, TOMORROW, Changed

_RUNNING = {
    "status": "running", "ended_at": None, "actual_output": None, "usd_cost": None, "fitness_score": None,
    "accuracy": None, "novelty": None, "feedback": None,
}  # fmt: skip
_BEGUN = {**_RUNNING, "heartbeat_at": None, "updated_at": BEGUN}
_QUEUED = {
    "status": "queued", "attempt_id": None, "attempt_count": 0, "owner_id": None, "lease_expires_at": None,
    "timeout_at": None, "input_applied_at": None, "started_at": None, "settled_at": None, "outcome": None,
    "updated_at": MADE,
}  # fmt: skip
_CLAIMED = {"status": "running", "settled_at": None, "outcome": None, "updated_at": BEGUN}
_WORKING = {**_CLAIMED, "updated_at": BEAT}
_BEHIND = {**_QUEUED, "id": "sub_10", "sequence": 43}
_JOINING = {**_BEHIND, "status": "joining", "joined_into": "sub_9", "updated_at": BEGUN}
_JOINED = {**_JOINING, "status": "joined", "input_applied_at": BEAT, "updated_at": BEAT}
_SEARCHING = {"status": "running", "ended_at": None, "notes": None}
_DUE = {
    "status": "pending", "attempt_count": 0, "next_attempt_at": TOLD, "last_status_code": None, "ended_at": None,
    "attempts": [],
}  # fmt: skip
_ASKED = {
    "state": "queued", "progress": {"done": 0, "total": None}, "counts": {}, "started_at": None, "ended_at": None,
}  # fmt: skip
_CLOSED: dict[str, Any] = {"tenant": "acme", "state": "closed", "counts": {}, "ended_at": None}

# By route, with its status or without, else by status and component: the members that then are others.
MOMENTS: dict[str, dict[str, Any]] = {
    "201 Admission": {"submission": Changed({**_QUEUED, "input": LEFT_OUT})},
    "201 EvolutionRun": {**_SEARCHING, "heartbeat_at": None},
    "201 Generation": {
        "ended_at": None, "best_version_id": None, "feedback": None,
        "stats": Changed(
            dict.fromkeys(
                ("best_fitness", "worst_fitness", "avg_fitness", "fitness_std_dev", "evaluation_cost",
                 "evaluations_per_hour", "improvement_rate")
            )
        ),
    },
    "201 Invocation": _BEGUN,
    "201 McpVersion": {"status": "draft", "released_at": None, "updated_at": MADE},
    "201 NodeInvocation": {
        "status": "running", "ended_at": None, "usd_cost": None, "input_tokens": None, "output_tokens": None,
        "summary": None, "files": [],
    },
    "202 Backup": {
        "state": "queued", "progress": {"done": 0, "total": None}, "manifest": LEFT_OUT, "size_bytes": None,
        "digest": None, "completed_at": None,
    },
    "202 Delivery": _DUE,
    "202 Job": _ASKED,
    "202 Offboarding": {**_CLOSED, "export": None},
    "DELETE /v1/api-keys/{key_id}": {"revoked_at": ENDED, "key": LEFT_OUT},
    "POST /v1/backups/restore": {
        **_ASKED, "kind": "backup.restore", "arguments": {"mode": "merge", "dry_run": False, "on_conflict": "fail"}
    },
    "POST /v1/backups/{backup_id}/verify": {**_ASKED, "kind": "backup.verify", "arguments": {"backup_id": BACKUP}},
    "202 PUT /v1/documents/{collection}": {
        **_ASKED, "kind": "documents.cut",
        "arguments": {"collection": "runs", "secret_paths": ["/account/api_key", "/tools/*/env"], "created_at": MADE},
    },
    "DELETE /v1/datasets/{dataset_id}": {**_ASKED, "kind": "dataset.delete", "arguments": {"dataset_id": "ds_may"}},
    "GET /v1/memory/records": {"items": Changed({"kind": "record"})},
    "GET /v1/memory/records/{item_id}": {"kind": "record"},
    "GET /v1/submissions/{submission_id}/joins": {"items": Changed(_JOINED)},
    "PATCH /v1/memory/records/{item_id}": {"kind": "record"},
    "POST /v1/evolution-runs/{run_id}/heartbeat": _SEARCHING,
    "POST /v1/evolution-runs/{run_id}/reopen": _SEARCHING,
    "POST /v1/invocations/{invocation_id}/cancel": {**_RUNNING, "cancel_requested_at": BEAT, "updated_at": BEAT},
    "POST /v1/invocations/{invocation_id}/heartbeat": {**_RUNNING, "updated_at": BEGUN},
    "POST /v1/invocations/{invocation_id}/start": _BEGUN,
    "POST /v1/jobs/{job_id}/cancel": {
        "state": "cancelled", "progress": {"done": 40, "total": 136}, "counts": {"invocations": 10, "messages": 30},
        "cancel_requested_at": ENDED,
    },
    "POST /v1/leases/{name}/release": {"holder": None, "expires_at": ENDED},
    "POST /v1/memory/records": {"kind": "record"},
    "POST /v1/memory/spaces/{name}/reembed": {**_ASKED, "kind": "memory.reembed", "arguments": {"space": "notes"}},
    "POST /v1/offboardings/{offboarding_id}/confirm": _CLOSED,
    "POST /v1/retention/runs": {
        **_ASKED, "kind": "retention.run", "arguments": {"kinds": ["invocations"], "dry_run": False}
    },
    "POST /v1/submissions/claim-next": {"items": Changed({**_CLAIMED, "input_applied_at": None})},
    "POST /v1/submissions/{submission_id}/joins/claim": {"items": Changed(_JOINING)},
    "POST /v1/submissions/{submission_id}/claim": {**_CLAIMED, "input_applied_at": None},
    "POST /v1/submissions/{submission_id}/fail": {"outcome": "failed", "error": "The tool is not reachable."},
    "POST /v1/submissions/{submission_id}/input-applied": _CLAIMED,
    "POST /v1/submissions/{submission_id}/ready": _QUEUED,
    "POST /v1/submissions/{submission_id}/recovery-request": {**_WORKING, "recovery_requested_at": BEAT},
    "POST /v1/submissions/{submission_id}/replace-attempt": {
        **_CLAIMED, "attempt_id": "att_3", "attempt_count": 2, "input_applied_at": None
    },
    "POST /v1/submissions/{submission_id}/requeue": {**_QUEUED, "attempt_count": 1, "updated_at": BEAT},
    "POST /v1/submissions/{submission_id}/settle-queued": {
        **_QUEUED, "status": "settled", "settled_at": ENDED, "outcome": "aborted",
        "error": "Nobody needs it any more.", "updated_at": ENDED,
    },
    "POST /v1/submissions/{submission_id}/joins/{child_id}/finalize": _JOINED,
    "POST /v1/submissions/{submission_id}/joins/{child_id}/revert": _BEHIND,
    "POST /v1/webhooks/{webhook_id}/rotate-secret": {"previous_secret_until": TOMORROW},
    "POST /v1/webhooks/{webhook_id}/test": {
        **_DUE, "event_type": "webhook.test", "event_id": None, "event_position": None
    },
}  # fmt: skip
# Changes that answer with the payloads, as they hand out what is to be worked on.
SHOWING = frozenset(
    {
        "POST /v1/dataset-records/lookup",
        "POST /v1/submissions/claim-next",
        "POST /v1/submissions/{submission_id}/claim",
        "POST /v1/submissions/{submission_id}/replace-attempt",
        "POST /v1/submissions/{submission_id}/joins/claim",
    }
)
# Answers that are no component, by path.
BODIES: dict[str, Any] = {
    "/metrics": (
        "# HELP cairn_http_requests_total Requests answered.\n# TYPE cairn_http_requests_total counter\n"
        'cairn_http_requests_total{method="GET",route="/v1/workflows",status="200"} 34.0\n'
    ),
    "/problems": "<!doctype html><title>Problems</title>…",
    "/problems/{code}": "<!doctype html><title>There is nothing here</title>…",
    "/v1/conversations/events": {
        "id": "0000000000000000_0000000000000007@inc_019b1e2f3a4b7c5d8e9f0a1b2c3d4e5f",
        "data": '{"offset":"0000000000000000_0000000000000007","records":[{"v":1,"id":"r1","type":"user_message"}]}',
    },
    "/v1/documents/{collection}/{document_id}": {"passed": 31, "failed": 2},
    "/v1/events": {
        "id": "MS40Mn43YTRkZjc3Yw",
        "data": f'{{"id":"{EVENT}","type":"invocation.ended","subject_type":"invocation","subject_id":"inv_7",'
        f'"subject_parent_id":null,"occurred_at":"{ENDED}","position":42,"data":{{"id":"inv_7","status":"completed"}}}}',
    },
    "/v1/evolution-runs/{run_id}/checkpoint": {"population": ["ver_3"], "seed": 7},
    "/v1/versions/{version_id}/io": {"question": "Why is the sky blue?"},
}


def moment_of(route: str, status: str, name: str | None) -> dict[str, Any]:
    """The members that are others in this answer."""
    for told in (f"{status} {route}", route, f"{status} {name}"):
        if told in MOMENTS:
            return MOMENTS[told]
    return {}
