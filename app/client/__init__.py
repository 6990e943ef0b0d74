"""The Python client of the service, for ordinary code and for the event loop. It imports nothing of the server."""

from app.client.clients import AsyncBatch, AsyncCairn, Batch, Cairn
from app.client.errors import (
    AttachmentIntegrityError,
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
    StaleProducerError,
    StreamReplacedError,
    UnauthenticatedError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
    VersionNotFoundError,
    WorkflowNotFoundError,
)
from app.client.exact import Json
from app.client.held import HeldSubmission, Requeue
from app.client.retry import Retry
from app.client.signatures import InvalidSignatureError, verify

__all__ = [
    "AsyncBatch",
    "AsyncCairn",
    "AttachmentIntegrityError",
    "Batch",
    "Cairn",
    "CairnError",
    "ConflictError",
    "CursorExpiredError",
    "DatasetRecordNotFoundError",
    "ForbiddenError",
    "HeldSubmission",
    "InvalidInputError",
    "InvalidSignatureError",
    "Json",
    "NodeVersionMissingError",
    "NotFoundError",
    "PersistenceError",
    "PreconditionFailedError",
    "RateLimitedError",
    "Requeue",
    "Retry",
    "StaleAttemptError",
    "StaleProducerError",
    "StreamReplacedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnreachableError",
    "UnreadableAnswerError",
    "VersionNotFoundError",
    "WorkflowNotFoundError",
    "verify",
]
