"""Several operations in one transaction: all of them, or none."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field
from starlette.types import Message

from app.db.database import Answer
from app.errors import AppError, InvalidInput, MalformedRequest, invalid
from app.http.call import MUTATING, Call
from app.http.endpoint import Endpoint, Routes
from app.http.fields import Body, Text, Verbatim

routes = Routes("batch")
REFUSED_HEADERS = frozenset({"idempotency-key", "authorization", "x-tenant-id", "host", "content-length"})


class Operation(Body):
    """One call: its method, its path with query, and its body."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[Text, Field(max_length=16_384, pattern=r"^/v1/[^\x00#]*$", examples=["/v1/workflows/wf_1"])]
    headers: dict[Text, Text] | None = None
    body: Verbatim | None = None

    def sent(self, endpoint: Endpoint) -> bytes:
        """The body as bytes; a null is a body only where any JSON is one."""
        if self.body is None:
            return b"null" if endpoint.takes_payload and "body" in self.given() else b""
        return bytes(self.body)


class Batch(Body):
    """The operations, in order. They may refer only to ids that the client chose."""

    # A payload may use all of its own depth inside the body of an operation; there it is measured again.
    levels_around: ClassVar[int] = 8

    operations: Annotated[list[Operation], Field(min_length=1)]


class Result(BaseModel):
    """What one operation answered."""

    status: int
    headers: dict[str, str]
    body: object


class Results(BaseModel):
    """What the operations answered, in order."""

    results: list[Result]


@routes.post("/v1/batch", scope="", response_model=Results, transactional=True, batchable=False)
async def run_batch(call: Call, body: Batch) -> Answer:
    """Run operations in one transaction, all or nothing; each needs its own scope.

    The first failure is the answer: its status and problem, with `index`, and nothing was done. A batch of reads
    alone runs on one snapshot. Streams, waits, long jobs, batches and inner Idempotency-Keys are refused.
    """
    most = call.ground.settings.batch_operations_max
    if len(body.operations) > most:
        raise invalid("/operations", f"must have at most {most} items")
    if all(operation.method in ("GET", "HEAD") for operation in body.operations):
        async with call.ground.database.reading() as snapshot:
            call.reader = snapshot
            return Answer(200, await _run(call, body.operations))
    return Answer(200, await _run(call, body.operations))


async def _run(call: Call, operations: list[Operation]) -> bytes:
    results: list[bytes] = []
    for index, operation in enumerate(operations):
        try:
            results.append(_result(await _one(call, index, operation), operation.method))
        except AppError as refusal:
            refusal.facts["index"] = index
            raise
    return b'{"results":[' + b",".join(results) + b"]}"


async def _one(call: Call, index: int, operation: Operation) -> Answer:
    path, _, query = operation.path.partition("?")
    headers = [(b"content-type", b"application/json")]
    for name, value in (operation.headers or {}).items():
        if name.lower() in REFUSED_HEADERS:
            raise invalid(f"/operations/{index}/headers", f"must not hold {name}")
        headers.append((name.lower().encode(), value.encode()))
    if not any(name == b"submission-attempt" for name, _ in headers) and "submission-attempt" in call.headers:
        headers.append((b"submission-attempt", call.headers["submission-attempt"].encode("latin-1")))
    try:
        raw_path, raw_query = path.encode("ascii"), query.encode("ascii")
    except UnicodeEncodeError:
        raise MalformedRequest(f"The path of operation {index} is not percent-encoded.") from None
    endpoint, values = call.ground.router.match(operation.method, path)
    if not endpoint.batchable or endpoint.streams or endpoint.open_to_all:
        raise InvalidInput(f"Operation {index} cannot run inside a batch.")
    scope = {
        **call.scope,
        "method": operation.method,
        "path": path,
        "raw_path": raw_path,
        "query_string": raw_query,
        "headers": headers,
    }
    inner = Call(scope, _nothing)
    inner.ground, inner.caller, inner.batched = call.ground, call.caller, True
    mutating = operation.method in MUTATING
    inner.raw_body = operation.sent(endpoint)
    inner.writer, inner.reader = call.writer, call.reader
    answer = await endpoint.perform(inner, values)
    answer = await endpoint.completed(inner, values, answer, call.writer if mutating else call.reader)
    if not isinstance(answer, Answer):
        raise InvalidInput(f"Operation {index} does not answer JSON; it cannot run inside a batch.")
    return answer


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _result(answer: Answer, method: str) -> bytes:
    headers = dict(answer.headers)
    if answer.etag is not None:
        headers["ETag"] = f'"{answer.etag}"'
    body = b"null" if answer.body is None or method == "HEAD" else answer.body
    return b'{"status":%d,"headers":%s,"body":%s}' % (answer.status, json.dumps(headers).encode(), body)
