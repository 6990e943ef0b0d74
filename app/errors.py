"""What can go wrong, as one exception type with a code, a status, a plain detail and facts to act on."""

from __future__ import annotations

from typing import Any


class AppError(Exception):
    """A refusal that the caller can act on.

    `status` is the HTTP status it maps to, `code` its stable name (`/problems/<code>`), `title` one line about the
    kind of problem, `detail` one sentence about this case, `facts` what to act on, `headers` extra answer headers.
    """

    status = 400
    code = "invalid_request"
    title = "The request cannot be carried out"

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts
        self.headers = headers or {}


class MalformedRequest(AppError):
    """The request is not well-formed: bad JSON, bad UTF-8, a bad percent-encoding."""

    status, code, title = 400, "malformed_request", "The request is not well-formed"


class BadCursor(AppError):
    """A cursor that this list did not hand out."""

    status, code, title = 400, "bad_cursor", "The cursor does not belong to this list"


class TenantRequired(AppError):
    """The operator's key was used on a tenant's route without naming the tenant."""

    status, code, title = 400, "tenant_required", "Name the tenant in X-Tenant-Id"


class Unauthenticated(AppError):
    """No key, or one that is unknown, expired or revoked."""

    status, code, title = 401, "unauthenticated", "A valid API key is needed"


class Forbidden(AppError):
    """The key lacks a scope, or names a tenant that is not its own."""

    status, code, title = 403, "forbidden", "The key does not permit this"


class NotFound(AppError):
    """What the path names does not exist for this tenant."""

    status, code, title = 404, "not_found", "There is nothing here"


class MethodNotAllowed(AppError):
    """The path exists, the method does not."""

    status, code, title = 405, "method_not_allowed", "The path does not answer this method"


class RequestTimeout(AppError):
    """The body stopped arriving."""

    status, code, title = 408, "request_timeout", "The request body stopped arriving"


class Conflict(AppError):
    """The state of the resource does not allow this."""

    status, code, title = 409, "conflict", "The resource's state does not allow this"


class StaleAttempt(Conflict):
    """The attempt named in `Submission-Attempt`, or by the call itself, does not own its submission."""

    code, title = "stale_attempt", "Another attempt owns this submission"


class StaleLease(Conflict):
    """The token named in `Lease` does not hold its lease; `current_token` and `holder` say what does, or did last."""

    code, title = "stale_lease", "The token does not hold the lease"


class IdempotencyInProgress(Conflict):
    """A request under the same Idempotency-Key is still running."""

    code, title = "idempotency_in_progress", "A request with this Idempotency-Key is still running"


class CursorExpired(AppError):
    """The cursor is older than what is still kept."""

    status, code, title = 410, "cursor_expired", "The cursor is older than what is kept"


class PreconditionFailed(AppError):
    """`If-Match` or `If-None-Match` does not hold."""

    status, code, title = 412, "precondition_failed", "The resource has changed"


class PayloadTooLarge(AppError):
    """The body is larger than the limit it names."""

    status, code, title = 413, "payload_too_large", "The request body is too large"


class UnsupportedMediaType(AppError):
    """The body is of a type that this route does not read."""

    status, code, title = 415, "unsupported_media_type", "The request body has the wrong type"


class InvalidInput(AppError):
    """Well-formed input that cannot be accepted; `errors` names each place by JSON Pointer or parameter."""

    status, code, title = 422, "invalid_input", "The input cannot be accepted"


class IdempotencyKeyReused(AppError):
    """The Idempotency-Key belongs to another request."""

    status, code, title = 422, "idempotency_key_reused", "The Idempotency-Key belongs to another request"


class HeadTooLarge(AppError):
    """The request line and the headers are larger than any request needs."""

    status, code, title = 431, "request_head_too_large", "The head of the request is too large"


class RateLimited(AppError):
    """The tenant's own limit is used up for the moment."""

    status, code, title = 429, "rate_limited", "Too many requests"


class PersistenceError(AppError):
    """Something on the service's side failed; nothing was stored."""

    status, code, title = 500, "persistence_error", "The service failed"


class Unavailable(AppError):
    """The service cannot do this now; try again after `Retry-After` seconds."""

    status, code, title = 503, "unavailable", "The service is busy or its database is away"

    def __init__(self, detail: str, *, retry_after_seconds: int = 1, **facts: Any) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)}, **facts)


def changed(what: str, revision: int | None) -> PreconditionFailed:
    """A `PreconditionFailed` for an `If-Match` that names another revision than this one; None where nothing is there.

    `current_etag` is the tag that would have done.
    """
    if revision is None:
        return PreconditionFailed(f"The {what} is not there, so `If-Match` cannot hold.")
    return PreconditionFailed(f"The {what} has another revision; read it again.", current_etag=f'"{revision}"')


def invalid(pointer: str, message: str) -> InvalidInput:
    """An `InvalidInput` about one place: a JSON Pointer into the body, or the name of a parameter."""
    return InvalidInput(f"{pointer or 'The body'}: {message}.", errors=[{"pointer": pointer, "message": message}])
