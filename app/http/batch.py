"""Several operations in one transaction: all of them, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import BaseModel, Field
from starlette.types import Message

from app.db.database import Answer
from app.db.fences import NO_FENCES, Fences
from app.db.shape import array
from app.errors import AppError, InvalidInput, invalid
from app.http import idempotency
from app.http.call import MUTATING, Call
from app.http.endpoint import Endpoint, Routes
from app.http.fields import Body, Text, Verbatim

routes = Routes("batch")
# What changes submissions locks their session before them; so does a batch that is fenced by one of them.
QUEUE = "submissions:write"
REFUSED_HEADERS = frozenset({"idempotency-key", "authorization", "x-tenant-id", "host", "content-length"})
SENT_ALONE = (
    "streams, raw bytes, waits, a conversation's acquire and append, making, changing and enabling webhooks, making"
    " and changing items of memory, making, filling and deleting its spaces, capabilities, health and batches are"
    " sent alone"
)


class Operation(Body):
    """One call: its method, its path with query, and its body."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[Text, Field(max_length=16_384, pattern=r"^/v1/[!-\"$-~]*$", examples=["/v1/workflows/wf_1"])]
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

    operations: Annotated[
        list[Operation], Field(min_length=1, examples=[[{"method": "GET", "path": "/v1/workflows?limit=1"}]])
    ]


class Result(BaseModel):
    """What one operation answered."""

    status: int
    headers: dict[str, str]
    body: object


class _Result(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: msgspec.Raw


class _Kept(msgspec.Struct):
    results: list[msgspec.Raw]


class Results(BaseModel):
    """What the operations answered, in order."""

    results: list[Result]


async def read_again(call: Call, body: Batch, kept: Answer) -> Answer:
    """The replay of a batch: what was written answers as before, and what was read is read again.

    A read that is refused now has the refusal's status and a null.
    """
    results = msgspec.json.decode(kept.body or b"", type=_Kept).results
    async with call.ground.database.reading() as call.reader:
        shown = [
            await _again(call, index, operation, result)
            for index, (operation, result) in enumerate(zip(body.operations, results, strict=True))
        ]
    return replace(kept, body=_joined(shown))


async def _again(call: Call, index: int, operation: Operation, result: msgspec.Raw) -> bytes:
    endpoint, values, inner = _inner(call, index, operation)
    if not endpoint.reads:
        was = msgspec.json.decode(result, type=_Result)
        written = Answer(was.status, bytes(was.body), headers=was.headers)
        shown = await endpoint.completed(inner, values, written, call.reader)
        return bytes(result) if shown is written else _result(_answer(index, shown), operation.method)
    try:
        return _result(_answer(index, await endpoint.perform(inner, values)), operation.method)
    except AppError as refusal:
        return _result(Answer(refusal.status, None), operation.method)


@routes.post("/v1/batch", scope="", response_model=Results, batchable=False, fences_itself=True, replayed=read_again)
async def run_batch(call: Call, body: Batch) -> Answer:
    """Run operations in one transaction, all or nothing; each needs its own scope.

    The first failure is the answer: its status and problem, with `index`, and nothing was done. A batch of reads
    alone runs on one snapshot. Streams, waits, long jobs, batches and inner Idempotency-Keys are refused. A replay
    under an Idempotency-Key repeats what the writes answered, and reads again what was read. `Submission-Attempt` and
    `Lease` fence all of it; an operation may name another attempt, or another lease, for itself.
    """
    most = call.ground.settings.batch_operations_max
    if len(body.operations) > most:
        raise invalid("/operations", f"must have at most {most} items")
    reads_only = not any(_written(call, operation) for operation in body.operations)
    # Reads write nothing, under whatever attempt or lease.
    call.held = NO_FENCES if reads_only else Fences(call.fence, call.lease_fence)
    if reads_only and call.claim is None:
        async with call.ground.database.reading() as call.reader:
            return await _run(call, body.operations)
    call.session_first = any(_written(call, operation, QUEUE) for operation in body.operations)
    answer = await idempotency.in_transaction(call, lambda: _run(call, body.operations), snapshot=reads_only)
    assert isinstance(answer, Answer)
    return answer


async def _run(call: Call, operations: list[Operation]) -> Answer:
    shown: list[bytes] = []
    kept: list[bytes] = []
    for index, operation in enumerate(operations):
        try:
            endpoint, values, inner = _inner(call, index, operation)
            if not endpoint.reads:
                await idempotency.hold(inner, call.writer, _own_fences(endpoint, inner))
            written = _answer(index, await endpoint.perform(inner, values))
            reader = call.reader if endpoint.reads else call.writer
            answer = _answer(index, await endpoint.completed(inner, values, written, reader))
        except AppError as refusal:
            refusal.facts["index"] = index
            raise
        shown.append(_result(answer, operation.method))
        if call.claim is not None:
            kept.append(_result(_kept_of(written, endpoint), operation.method))
    return Answer(200, _joined(shown), kept=_joined(kept))


def _own_fences(endpoint: Endpoint, inner: Call) -> Fences:
    """What an operation names for itself, besides what is held for the batch."""
    attempt = None if endpoint.fences_itself or inner.fence == inner.held.attempt else inner.fence
    return Fences(attempt, None if inner.lease_fence == inner.held.lease else inner.lease_fence)


def _written(call: Call, operation: Operation, scope: str | None = None) -> bool:
    """Whether the operation writes, under this scope if one is named. What no route answers fails where it is run."""
    if operation.method not in MUTATING:
        return False
    try:
        endpoint, _ = call.ground.router.match(operation.method, operation.path.partition("?")[0])
    except AppError:
        return False
    return not endpoint.reads and scope in (None, endpoint.scope)


def _kept_of(written: Answer, endpoint: Endpoint) -> Answer:
    """What a result is kept as: no copy of what was read, and no secret."""
    if endpoint.reads:
        return Answer(written.status, None)
    return written if written.kept is None else replace(written, body=written.kept)


def _joined(results: list[bytes]) -> bytes:
    return b'{"results":' + array(results) + b"}"


def _answer(index: int, answer: Any) -> Answer:
    if not isinstance(answer, Answer):
        raise InvalidInput(f"Operation {index} does not answer JSON; it cannot run inside a batch: {SENT_ALONE}.")
    return answer


def _inner(call: Call, index: int, operation: Operation) -> tuple[Endpoint, list[str], Call]:
    """The route of an operation, its path parameters, and the call it is, on the batch's own transaction."""
    path, _, query = operation.path.partition("?")
    headers = [(b"content-type", b"application/json")]
    for name, value in (operation.headers or {}).items():
        if name.lower() in REFUSED_HEADERS:
            raise invalid(f"/operations/{index}/headers", f"must not hold {name}")
        headers.append((name.lower().encode(), value.encode()))
    given = {name for name, _ in headers}
    headers += [
        (name.encode(), call.headers[name].encode("latin-1"))
        for name in ("submission-attempt", "lease")
        if name.encode() not in given and name in call.headers
    ]
    endpoint, values = call.ground.router.match(operation.method, path)
    if not endpoint.batchable or endpoint.open_to_all:
        raise InvalidInput(f"Operation {index} cannot run inside a batch: {SENT_ALONE}.")
    scope = {
        **call.scope,
        "method": operation.method,
        "path": path,
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": headers,
    }
    inner = Call(scope, _nothing)
    inner.ground, inner.caller, inner.batched = call.ground, call.caller, True
    inner.raw_body = operation.sent(endpoint)
    inner.writer, inner.reader, inner.moved = call.writer, call.reader, call.moved
    inner.held, inner.afterwards = call.held, call.afterwards
    return endpoint, values, inner


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _result(answer: Answer, method: str) -> bytes:
    headers = dict(answer.headers)
    if answer.etag is not None:
        headers["ETag"] = f'"{answer.etag}"'
    body = b"null" if answer.body is None or method == "HEAD" else answer.body
    return b'{"status":%d,"headers":%s,"body":%s}' % (answer.status, json.dumps(headers).encode(), body)
