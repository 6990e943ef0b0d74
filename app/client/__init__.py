"""The Python client of the service, for ordinary code and for the event loop. It imports nothing of the server."""

from app.client.clients import AsyncBatch, AsyncCairn, Batch, Cairn
from app.client.errors import (
    CairnError,
    ConflictError,
    CursorExpiredError,
    DatasetRecordNotFoundError,
    ForbiddenError,
    InvalidInputError,
    NodeVersionMissingError,
    NotFoundError,
    PersistenceError,
    PreconditionFailedError,
    RateLimitedError,
    StaleAttemptError,
    UnauthenticatedError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
    VersionNotFoundError,
    WorkflowNotFoundError,
)
from app.client.exact import Json
from app.client.retry import Retry

__all__ = [
    "AsyncBatch",
    "AsyncCairn",
    "Batch",
    "Cairn",
    "CairnError",
    "ConflictError",
    "CursorExpiredError",
    "DatasetRecordNotFoundError",
    "ForbiddenError",
    "InvalidInputError",
    "Json",
    "NodeVersionMissingError",
    "NotFoundError",
    "PersistenceError",
    "PreconditionFailedError",
    "RateLimitedError",
    "Retry",
    "StaleAttemptError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnreachableError",
    "UnreadableAnswerError",
    "VersionNotFoundError",
    "WorkflowNotFoundError",
]
