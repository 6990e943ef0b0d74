"""What can go wrong, as exceptions: a class for each problem that callers act on, named as the originals name it."""

from __future__ import annotations

from typing import Any

from app.client.exact import decode_exactly
from app.client.reply import Reply

_ENVELOPE = {"type", "title", "status", "detail", "instance", "code", "request_id"}


class CairnError(Exception):
    """Base of everything this client raises on purpose.

    `code` is the problem's code, `status` the HTTP status (0 when there was no answer), `facts` what the service
    said beyond its detail (`current_status`, `attempt_id`, `index` …).
    """

    def __init__(
        self,
        code: str,
        status: int = 0,
        detail: str = "",
        facts: dict[str, Any] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.status = status
        self.detail = detail
        self.facts: dict[str, Any] = facts or {}
        self.request_id = request_id
        self.retry_after_seconds: float | None = None
        """How long the service asked to wait before another try, if it did."""


class PersistenceError(CairnError):
    """An operation failed; the more telling errors derive from this. `__cause__` is the original error, if any."""


class UnreachableError(PersistenceError):
    """No answer came within the tries allowed. What was asked for may or may not have happened."""


class UnreadableAnswerError(PersistenceError):
    """An answer came that is not what the contract promises."""


class UnavailableError(PersistenceError):
    """The service answered that it cannot serve now (503)."""


class NotFoundError(PersistenceError):
    """No such thing in this tenant (404)."""


class WorkflowNotFoundError(NotFoundError):
    """No such workflow."""


class VersionNotFoundError(WorkflowNotFoundError):
    """No such workflow version. The originals call this a workflow not found, so catching that catches this too."""


class NodeVersionMissingError(NotFoundError):
    """A node invocation names a node that the version does not have."""


class DatasetRecordNotFoundError(NotFoundError):
    """Some dataset records do not exist; `missing_ids` names them."""

    @property
    def missing_ids(self) -> list[str]:
        """The ids that were asked for and are not there."""
        return list(self.facts.get("missing_ids", ()))


class InvalidInputError(PersistenceError):
    """The request was understood and refused (400, 413, 422); `errors` points at the fields."""

    @property
    def errors(self) -> list[dict[str, Any]]:
        """`{"pointer", "message"}` for each field that was refused."""
        return list(self.facts.get("errors", ()))


class UnauthenticatedError(PersistenceError):
    """No key, or one that is unknown, revoked or expired (401)."""


class ForbiddenError(PersistenceError):
    """The key's scopes or tenant do not allow this (403)."""


class ConflictError(PersistenceError):
    """The thing's state does not allow this, or the id is taken by something else (409); `facts` says what is there."""


class StaleAttemptError(ConflictError):
    """Another attempt owns the submission that this write was made for."""


class StaleProducerError(ConflictError):
    """Another producer, or a later claim, writes this conversation."""


class StreamReplacedError(PersistenceError):
    """The conversation that was followed is gone, and another one is at its path (410)."""


class AttachmentIntegrityError(PersistenceError):
    """The bytes of an attachment are not those that its size and digest promise."""


class ArtifactIntegrityError(PersistenceError):
    """The bytes of an artifact are not those that its hash promises."""


class CursorExpiredError(PersistenceError):
    """Events after this cursor are no longer all kept (410); `facts` names the earliest cursor that works."""


class VersionPrunedError(PersistenceError):
    """A rule of retention has let the content of the version go (410); the same posted again brings it back."""


class PreconditionFailedError(PersistenceError):
    """The row has changed since the `ETag` that was named (412)."""


class RateLimitedError(PersistenceError):
    """Too many requests (429); see `retry_after_seconds`."""


_BY_CODE: dict[str, type[PersistenceError]] = {
    "workflow_not_found": WorkflowNotFoundError,
    "version_not_found": VersionNotFoundError,
    "node_version_missing": NodeVersionMissingError,
    "dataset_record_not_found": DatasetRecordNotFoundError,
    "invalid_input": InvalidInputError,
    "stale_attempt": StaleAttemptError,
    "stale_producer": StaleProducerError,
    "stream_replaced": StreamReplacedError,
    "cursor_expired": CursorExpiredError,
    "version_pruned": VersionPrunedError,
    "attachment_integrity": AttachmentIntegrityError,
    "artifact_integrity": ArtifactIntegrityError,
}
_BY_STATUS: dict[int, type[PersistenceError]] = {
    400: InvalidInputError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionFailedError,
    413: InvalidInputError,
    422: InvalidInputError,
    429: RateLimitedError,
    503: UnavailableError,
}


def error_of(reply: Reply) -> PersistenceError:
    """The exception that tells of a refusal; an answer that is no problem document gets the code `http_<status>`."""
    problem = _problem(reply)
    code = str(problem.get("code") or f"http_{reply.status}")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(reply.status, PersistenceError)
    error = kind(
        code,
        reply.status,
        str(problem.get("detail") or problem.get("title") or ""),
        {name: fact for name, fact in problem.items() if name not in _ENVELOPE},
        problem.get("request_id") or reply.headers.get("x-request-id"),
    )
    error.retry_after_seconds = reply.retry_after_seconds
    return error


def _problem(reply: Reply) -> dict[str, Any]:
    try:
        problem = decode_exactly(reply.body)
    except ValueError:
        # Not ours: a proxy's page, or no body at all. The status is all there is to tell.
        return {}
    return problem if isinstance(problem, dict) else {}
