"""What JSON Schema does not say about a request, each rule with its reason. Only documented ("positive") calls change.

Everything that is left out of the run against the service's own document is here or in `schemathesis.toml`.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from typing import Any

import schemathesis

# Cursors and offsets are handed out by the service; any other text is 400 by design.
HANDED_OUT = ("cursor", "after", "offset", "before", "at_or_before")
# `include` names verbatim fields of the resource; which ones is said in words.
NAMED_IN_WORDS = ("include",)
# What is filtered on is `jsonb`, which no U+0000 can be in, however deep; JSON Schema cannot say so.
SEARCHABLE = ("metadata", "extras", "memory", "error", "knowledge", "input_schema", "output_schema",
              "expected_output_type", "snapshot_metadata", "rubric", "config",
              "capabilities", "annotations", "traits", "filter")  # fmt: skip
HASH = "6ba34d7cedffb75fb7b4e2f29816d144e9073bb8c9038eafa63fb22b2cbfb134"
OPERATORS = (
    "PUT /v1/tenants/{tenant_id}",
    "PATCH /v1/tenants/{tenant_id}",
    "PUT /v1/tenants/{tenant_id}/limits",
    "DELETE /v1/tenants/{tenant_id}",
    "GET /v1/offboardings",
    "GET /v1/offboardings/{offboarding_id}",
    "GET /v1/offboardings/{offboarding_id}/receipt",
    "GET /v1/offboardings/{offboarding_id}/export",
    "POST /v1/offboardings/{offboarding_id}/confirm",
    "POST /v1/offboardings/{offboarding_id}/cancel",
)


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Make a documented call one that the rules between its parts allow."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and key.isascii() and key.isprintable() and " " not in key and 0 < len(key) <= 255:
        # A key belongs to one request: the same one with another body is 422 by design.
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # A generated attempt or token owns nothing (409); a generated ETag is never the current one (412).
    for name in (
        "Submission-Attempt",
        "Lease",
        "If-Match",
        *(("If-None-Match",) if case.method in ("PUT", "PATCH") else ()),
    ):
        (case.headers or {}).pop(name, None)
    for name in (*HANDED_OUT, *NAMED_IN_WORDS):
        (case.query or {}).pop(name, None)
    if case.operation.label == "POST /v1/dead-letters/replay" and not isinstance(case.body, dict):
        # A call without a body chooses no letters, which is refused.
        case.body = {}
    if case.operation.label == "DELETE /v1/dead-letters":
        # What is removed is not what the others work on.
        case.query = {**(case.query or {}), "subject": "none"}
    if case.operation.label == "GET /v1/events":
        # Which types there are is said in words too.
        (case.query or {}).pop("type", None)
    if "wait_seconds" in (case.query or {}):
        # Nothing happens meanwhile that would be worth the wait.
        case.query.update(wait_seconds=0)
    if case.operation.label == "GET /v1/evolution-runs/{run_id}/versions":
        # Versions and configurations have sorts of their own.
        (case.query or {}).pop("sort", None)
    if case.operation.label.endswith("/memory"):
        case.body = _without_nul(case.body)
    if case.operation.label == "PUT /v1/invocations/{invocation_id}/contexts/{scope}/{key}":
        # A JSON object, as text.
        case.query = {**(case.query or {}), "metadata": '{"of":"tests"}'}
    if case.operation.label in ("GET /v1/memory/documents", "GET /v1/memory/records"):
        # As above.
        (case.query or {}).pop("metadata", None)
    if case.operation.label == "PATCH /v1/documents/{collection}/{document_id}":
        # A shallow merge is one of two objects.
        (case.query or {}).pop("merge", None)
    if "/v1/documents/" in case.operation.label:
        # What is over is not what the others work on.
        (case.query or {}).pop("expires_at", None)
    if case.operation.label == "PUT /v1/attachments":
        # What is said of the bytes is what they are.
        body = case.body if isinstance(case.body, bytes) else str(case.body).encode()
        case.body = body
        case.query.update(size=len(body), digest=hashlib.sha256(body).hexdigest())
    if case.operation.label in (
        "GET /v1/backups/{backup_id}/content",
        "GET /v1/offboardings/{offboarding_id}/export",
    ):
        # The file of the run has no bytes.
        (case.headers or {}).pop("Range", None)
    if case.operation.label == "POST /v1/artifacts":
        case.query = {}
    if case.operation.label == "POST /v1/backups/restore":
        # Whatever is sent is for a job to refuse; it is something.
        (case.query or {}).pop("backup_id", None)
        case.body = case.body or b"x"
    if case.operation.label == "PUT /v1/invocations/{invocation_id}/artifacts/{name}":
        # An artifact that is there.
        case.body["hash"] = HASH
    if isinstance(case.body, dict):
        for item in (case.body, *(case.body.get("items") or ()), *(case.body.get("nodes") or ())):
            item.update({name: _without_nul(item[name]) for name in SEARCHABLE if name in item})
        _fit(case.operation.label, case.body)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(item) for name, item in value.items()}
    return value


def _fit(label: str, body: dict[str, Any]) -> None:
    """Rules between the fields of one body."""
    if label == "POST /v1/backups":
        # Only sections that there are, and keys of age.
        body.pop("sections", None)
        body.pop("recipients", None)
    elif label == "PUT /v1/retention" and isinstance(body.get("kinds"), dict):
        # Each kind knows some of the members; all know the age.
        for rule in filter(None, body["kinds"].values()):
            for name in [name for name in rule if name.startswith("keep_")]:
                del rule[name]
    elif label == "POST /v1/invocations" and body.get("status") == "queued":
        body.pop("started_at", None)
    elif label.endswith("/nodes") and body.get("status", "running") == "running":
        body.pop("ended_at", None)
    elif label == "POST /v1/submissions/claim-next":
        # Nobody else admits anything meanwhile, and what the other operations work on is not taken.
        body.update(wait_seconds=0, agent=body.get("agent") or "researcher")
    elif label == "POST /v1/submissions/{submission_id}/claim":
        # A lease is given in one way.
        body.pop("lease_expires_at", None)
        body["lease_seconds"] = body.get("lease_seconds") or 30
    elif "/v1/submissions/" in label:
        _fit_submission(label, body)
    elif "/v1/leases/" in label:
        # One holder asks, under the token that it has.
        body.update(holder="9c41-owner-only", **({"fencing_token": 1} if "fencing_token" in body else {}))
        body.pop("wait_seconds", None)
    elif label.endswith(("/end", "/complete")):
        # The end must not lie before the start, which the service's clock gave.
        body.pop("ended_at", None)
    elif label == "PUT /v1/tenants/{tenant_id}/limits":
        # The limit holds for this very run.
        body.update(requests_per_second=1_000_000, burst=10_000_000)
        body.pop("classes", None)
    elif "/v1/conversations" in label:
        _fit_conversation(label, body)
    elif label == "POST /v1/documents/{collection}/query":
        # Where values are looked for is said in words; a cursor is handed out.
        body.pop("in", None)
        body.pop("cursor", None)
        body.update({"contains": _without_nul(body["contains"])} if "contains" in body else {})
    elif "/v1/mcp/" in label:
        _fit_registry(label, body)
    elif "/v1/webhooks" in label:
        _fit_webhook(body)
    elif label == "PUT /v1/memory/spaces/{name}":
        # Which languages there are is said by the server.
        body.update(language="simple")
    elif label == "POST /v1/memory/search":
        # The space has a size, no service makes embeddings, and `jsonb` holds no U+0000.
        body.pop("embedding", None)
        body.update(space="space", mode="text", query=body.get("query") or "words")
    elif "/v1/memory/" in label:
        # What arrangement made lives on, in the space that there is; an embedding has the size of that.
        for item in (body, *(body.get("items") or ())):
            item.pop("space", None)
            item.pop("expires_at", None)
            if item.get("embedding") is not None:
                item.update(embedding=[1, 2, 3])
    elif label == "POST /v1/dead-letters/replay":
        # A cursor is handed out; what is replayed is not what the others work on.
        body.pop("cursor", None)
        body.update(subject="none")
    elif label == "PATCH /v1/sessions/{session_id}":
        # What has ended, or has expired, stays so.
        body.pop("status", None)
        body.pop("expires_at", None)
    elif label.endswith(("/contexts/copy", "/contexts/move")):
        # Elsewhere, and of one that is not what the others work on, if it is moved.
        name = "key" if label.endswith("copy") else "moving"
        body.update(source={"scope": "workflow", "key": name}, target={"key": f"{name} there"}, overwrite=True)
    elif label.endswith("/contexts/clear"):
        body.update(pattern="cleared")
    elif label.endswith("/checkpoints"):
        # A number is held by the state that came first.
        body.pop("number", None)
    elif label.endswith("/records"):
        # A record belongs to a version of its own dataset, or to none.
        for item in (body, *(body.get("items") or ())):
            item.pop("dataset_version_id", None)
    elif label.endswith("/lookup"):
        # What is asked for is not there.
        body.update(allow_missing=True)
    elif label.endswith("/members") and isinstance(body.get("items"), list):
        # A version is in a generation once.
        body["items"] = list({item["version_id"]: item for item in body["items"]}.values())
    elif label == "POST /v1/workflows/{workflow_id}/versions":
        # Each operation takes its own number of parents.
        body.update(operation="init", parent1_id=None, parent2_id=None, parents_unknown=False)


def _fit_submission(label: str, body: dict[str, Any]) -> None:
    """The attempt is the one that the submission runs under, and the record is the one that is reserved."""
    if "attempt_id" in body:
        body.update(attempt_id="t")
    if label.endswith("/replace-attempt"):
        body.pop("lease_expires_at", None)
        body.update(next_attempt_id="t2")
    elif "/settlement/" in label:
        body.update(record_id="r")
        if "record" in body:
            body.update(record={"id": "r", "outcome": "completed"})


def _fit_conversation(label: str, body: dict[str, Any]) -> None:
    """A path belongs to one identity, and only its producer's next batch, or one that it stored, is taken."""
    if label == "PUT /v1/conversations":
        body.update(path=uuid.uuid4().hex)
    elif label.endswith("/acquire"):
        body.update(path="taken")
    elif label.endswith("/append"):
        body.pop("submission", None)
        body.update(path="conv", producer_id="p", producer_epoch=1, producer_sequence=0, records=[{}],
                    incarnation=os.environ["CAIRN_TEST_INCARNATION"])  # fmt: skip


def _fit_registry(label: str, body: dict[str, Any]) -> None:
    """Rules of the registry: names that are unique, what a release freezes, no secret values."""
    if label.endswith("/servers") or label == "PATCH /v1/mcp/servers/{server_id}":
        body.update(slug=f"s{uuid.uuid4().hex}")
    elif "/versions" in label and not label.endswith("/tools"):
        body.update(version=uuid.uuid4().hex, status="draft")
    elif label.endswith("/tools"):
        names = [item for item in (body, *(body.get("items") or ())) if "name" in item]
        for item in names:
            item.update(name=uuid.uuid4().hex)
    else:
        for item in (body, *(body.get("items") or ())):
            if "name" in item or "config" in item or "server_id" in item:
                item.update(server_id=None, name=uuid.uuid4().hex, config={"command": "run"})
        if label.startswith("PUT /v1/mcp/configs"):
            # A configuration stays its user's.
            body.update(user_id="u")


def _fit_webhook(body: dict[str, Any]) -> None:
    """An address that the operator allows, headers that no server misreads, types and fields that there are."""
    if "url" in body:
        body.update(url="http://127.0.0.1:9/hook")
    if "headers" in body:
        body.update(headers={"X-Of": "tests"})
    if "event_types" in body:
        body.update(event_types=["invocation.ended"])
    if "include" in body:
        body.update(include=["output"])
    if "enabled" in body:
        # What is disabled is sent no test.
        body.update(enabled=True)
    if body.get("secret") is not None:
        body.update(secret="whsec_" + "c2VjcmV0" * 5)


@schemathesis.auth(refresh_interval=None)
class Key:
    """The tenant's own key; tenants are changed by the operator alone."""

    def get(self, case: schemathesis.Case, context: Any) -> str:
        """The key for this call."""
        return os.environ["CAIRN_TEST_ADMIN_KEY" if case.operation.label in OPERATORS else "CAIRN_TEST_KEY"]

    def set(self, case: schemathesis.Case, data: str, context: Any) -> None:
        """Send it."""
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}
