"""Contexts over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.responses import Response

from app.artifacts import store as artifacts
from app.artifacts.errors import ArtifactDamaged
from app.contexts import store
from app.contexts.errors import ContextConflict, ContextNotFound
from app.contexts.schemas import (
    Cleared,
    Clearing,
    Context,
    ContextList,
    ContextPage,
    ContextQuery,
    NewContext,
    Transfer,
)
from app.db.database import Answer
from app.db.integrity import IN_THE_WAY
from app.db.race import TRIES
from app.errors import Unavailable, invalid
from app.http import ranged
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.idempotency import hold
from app.http.openapi_headers import ONLY_NEW
from app.http.paging import page
from app.http.received import Received
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound

routes = Routes("contexts")
ROOT = "/v1/invocations/{invocation_id}/contexts"
ONE = ROOT + "/{scope}/{key}"
UNTYPED = "application/octet-stream"
CONTENT_TYPE_BYTES_MAX = 255
HEADERS = {
    "Context-Summary": "The summary, percent-encoded.",
    "Context-Metadata": "The metadata, a JSON object, percent-encoded.",
    "Context-Content-Type": "The type as it was given, percent-encoded.",
    "Context-Size": "How many bytes there are, whichever of them are sent.",
    "Context-Digest": "SHA-256 of all bytes, in hexadecimal digits.",
    "Context-Expires-At": "When it is gone; absent where that is never.",
    "Context-Created-At": "When it was first stored.",
    "Context-Updated-At": "When it was last stored.",
    "Content-Disposition": "Always `attachment`.",
    "Accept-Ranges": "`bytes`.",
}
# It may change at any time, so there is no 304, and who keeps it asks first.
CHANGING = {"Cache-Control": "private, no-cache"}
RESPONSES = {status: told for status, told in ranged.documented(HEADERS).items() if status != 304}


@routes.put(
    ONE,
    scope="contexts:write",
    response_model=Context,
    status_code=201,
    errors=(InvocationNotFound,),
    openapi_extra={"parameters": [ONLY_NEW]},
)
async def put_context(
    call: Call, invocation_id: str, scope: str, key: str, query: NewContext, body: Received
) -> Answer:
    """Store bytes of any type under a key of the invocation, with a summary and metadata, as one unit.

    What was there is replaced whole: what is not given is empty, and the summary then an excerpt. Under
    `If-None-Match: *` nothing is replaced.
    """
    ground = call.ground
    only_new, content_type = call.only_new, _content_type(call)
    large = body.size_bytes > ground.inline_bytes_max
    if large:
        if call.held:
            # Looked at before the bytes are written too: they may be many.
            await hold(call, ground.database, call.held)
        await artifacts.keep(ground.database, ground.blobs, call.tenant_id, body)
    return await store.put(
        call.writer,
        _key(call, invocation_id, scope, query.node_id, key),
        query.model_dump(),
        content_type,
        body,
        large=large,
        if_match=call.if_match,
        may_create=call.may_create,
        only_new=only_new,
    )


@routes.get(
    ONE,
    scope="contexts:read",
    response_class=Response,
    batchable=False,
    errors=(InvocationNotFound, ContextNotFound, ArtifactDamaged, ranged.RangeNotSatisfiable),
    responses=RESPONSES,
    openapi_extra={"parameters": ranged.RANGE_HEADERS},
)
async def get_context(call: Call, invocation_id: str, scope: str, key: str, query: ContextQuery) -> Response:
    """The bytes of a context, always as a download, with its summary and metadata in headers; one range if asked.

    `HEAD` tells whether it is there, and everything but the bytes. Of large ones each part is checked before it is
    sent; where one turns out damaged, the connection is cut.
    """
    stored, span, body = await _opened(call, _key(call, invocation_id, scope, query.node_id, key))
    tag, size_bytes = _tag(stored), stored["size_bytes"]
    headers = {
        **ranged.head_of(tag, stored["content_type"], stored["key"]),
        **CHANGING,
        "Context-Summary": quote(stored["summary"], safe=""),
        "Context-Metadata": quote(stored["metadata"], safe=""),
        "Context-Content-Type": quote(stored["content_type"], safe="/"),
        "Context-Size": str(size_bytes),
        "Context-Digest": stored["digest"].hex(),
        "Context-Created-At": stored["created_at"],
        "Context-Updated-At": stored["updated_at"],
    }
    if stored["expires_at"] is not None:
        headers["Context-Expires-At"] = stored["expires_at"]
    return ranged.answered(call, headers, size_bytes, span, body)


async def _opened(
    call: Call, place: dict[str, str]
) -> tuple[store.Stored, ranged.Span | None, bytes | AsyncIterator[bytes]]:
    """A context with the range that is asked for, and its bytes, which are of the same write."""
    with_bytes = call.method == "GET"
    for _ in range(TRIES):
        stored = await store.find(call.reader, place, with_bytes=with_bytes)
        size_bytes = stored["size_bytes"]
        span = ranged.asked(call, _tag(stored), size_bytes)
        start, end = (0, size_bytes) if span is None else (span.start, span.end)
        if not with_bytes:
            return stored, span, b""
        body = await store.opened(call.reader, call.ground.blobs, call.tenant_id, stored, start, end)
        if body is not None:
            return stored, span, body
    raise Unavailable(IN_THE_WAY)


def _tag(stored: store.Stored) -> str:
    return f'"{stored["revision"]}"'


@routes.delete(ONE, scope="contexts:write", status_code=204, errors=(InvocationNotFound, ContextNotFound))
async def delete_context(call: Call, invocation_id: str, scope: str, key: str, query: ContextQuery) -> Answer:
    """Delete a context. It is gone: it is not listed, and `HEAD` is 404."""
    return await store.delete(call.writer, _key(call, invocation_id, scope, query.node_id, key), call.if_match)


@routes.get(ROOT, scope="contexts:read", response_model=ContextPage, errors=(InvocationNotFound,))
async def list_contexts(call: Call, invocation_id: str, query: ContextList) -> Answer:
    """The contexts of an invocation with their summaries, without their bytes, by scope, node and key."""
    return await page(
        call,
        store.CONTEXTS,
        query,
        {**store.conditions(query.filters()), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.post(
    f"{ROOT}/copy",
    scope="contexts:write",
    response_model=Context,
    status_code=201,
    errors=(InvocationNotFound, ContextNotFound, ContextConflict),
)
async def copy_context(call: Call, invocation_id: str, body: Transfer) -> Answer:
    """Copy a context with its summary, metadata and expiry, within the invocation or to another of the tenant.

    Where the target is taken it is 409, or replaced with `overwrite`. However large, no bytes are sent.
    """
    return await _transferred(call, invocation_id, body, move=False)


@routes.post(
    f"{ROOT}/move",
    scope="contexts:write",
    response_model=Context,
    status_code=201,
    errors=(InvocationNotFound, ContextNotFound, ContextConflict),
)
async def move_context(call: Call, invocation_id: str, body: Transfer) -> Answer:
    """Move a context, as `copy` does, and take it away where it was: nobody sees it at both places, or at none."""
    return await _transferred(call, invocation_id, body, move=True)


@routes.post(
    f"{ROOT}/clear",
    scope="contexts:write",
    response_model=Cleared,
    transactional=True,
    errors=(InvocationNotFound,),
)
async def clear_contexts(call: Call, invocation_id: str, body: Clearing) -> Answer:
    """Delete the contexts of the invocation that meet every condition, all or none, and say how many there were."""
    deleted = await store.clear(call.writer, call.tenant_id, invocation_id, body.given())
    return Answer(200, b'{"deleted":%d}' % deleted)


async def _transferred(call: Call, invocation_id: str, body: Transfer, *, move: bool) -> Answer:
    place = body.source
    source = _key(call, invocation_id, place.scope, place.node_id or "", place.key)
    target = {name: value for name, value in body.target.given().items() if name == "node_id" or value is not None}
    return await store.transfer(call.writer, source, target, overwrite=body.overwrite, move=move)


def _key(call: Call, invocation_id: str, scope: str, node_id: str, key: str) -> dict[str, str]:
    return {
        "tenant_id": call.tenant_id,
        "invocation_id": invocation_id,
        "scope": scope,
        "node_id": node_id,
        "key": key,
    }


def _content_type(call: Call) -> str:
    """The type as it was given. Raises `InvalidInput` for one that cannot be kept."""
    given = call.headers.get("content-type") or UNTYPED
    if len(given.encode()) > CONTENT_TYPE_BYTES_MAX or "\x00" in given:
        raise invalid("Content-Type", f"must be at most {CONTENT_TYPE_BYTES_MAX} bytes, without NUL")
    return given
