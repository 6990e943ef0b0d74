"""Documents over HTTP."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from app.db.database import Answer
from app.db.page import Found, Page
from app.documents import listing, store
from app.documents.errors import DocumentNotFound, DocumentNotObject
from app.documents.rules import Rules, key_of, rules_of
from app.documents.schemas import (
    Document,
    DocumentPage,
    DocumentQuery,
    PatchQuery,
    PutQuery,
    RevisionList,
    RevisionPage,
)
from app.documents.splicing import NotAnObject, Patch
from app.documents.store import DOCUMENT, SHOWN, THREAD_BYTES, Place
from app.errors import PreconditionFailed, invalid
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.fields import Verbatim
from app.http.idempotency import in_turn
from app.http.including import Including
from app.http.openapi_headers import ONLY_NEW
from app.http.paging import IncludeQuery, answered, asked

routes = Routes("documents")
INCLUDING = Including(DOCUMENT, f"{SHOWN} AS t", ("collection",))


class _NoCollection(Exception):
    """There is nothing to remember of a collection that is not there."""


def place_of(call: Call, collection: str, document_id: str) -> Place:
    """The document that a call writes, under its `If-Match` and `If-None-Match`. Raises `InvalidInput`."""
    return Place(call.tenant_id, collection, document_id, call.if_match, call.may_create, call.only_new)


async def _rules(call: Call, collection: str) -> Rules | None:
    """The rules as they are remembered; within a batch as they are there."""

    async def load() -> bytes:
        text = await store.rules_text(call.reader, call.tenant_id, collection)
        if text is None:
            raise _NoCollection
        return text

    try:
        if call.batched:
            return rules_of(await load())
        return rules_of(await call.ground.collections.body(call.tenant_id, collection, load))
    except _NoCollection:
        return None


@routes.put(
    "/v1/documents/{collection}/{document_id}",
    scope="documents:write",
    including=INCLUDING,
    response_model=Document,
    status_code=201,
    errors=(PreconditionFailed,),
    openapi_extra={"parameters": [ONLY_NEW]},
)
async def put_document(call: Call, collection: str, document_id: str, query: PutQuery, body: Verbatim) -> Answer:
    """Store any JSON value under an id, byte for byte; it replaces what was there, its `expires_at` included.

    `If-None-Match: *` creates only. A collection is made with its first document.
    """
    place = place_of(call, collection, document_id)
    forget = partial(call.ground.collections.heard, key_of(call.tenant_id))
    return await store.put(call.writer, place, partial(_rules, call, collection), forget, body, query.expires_at)


@routes.patch(
    "/v1/documents/{collection}/{document_id}",
    scope="documents:write",
    including=INCLUDING,
    response_model=Document,
    status_code=201,
    errors=(PreconditionFailed, DocumentNotObject),
    openapi_extra={"parameters": [ONLY_NEW]},
)
async def patch_document(call: Call, collection: str, document_id: str, query: PatchQuery, body: Verbatim) -> Answer:
    """Merge members into a document, which is made where there is none. No change of another writer is lost.

    The text is spliced: what the patch does not name keeps its exact bytes, its place and its spacing, and new members
    come last. `merge=shallow` needs an object, sent and stored; `merge=rfc7396` follows that RFC.
    """
    place = place_of(call, collection, document_id)
    try:
        read = partial(Patch, body, deep=query.merge == "rfc7396")
        change = await asyncio.to_thread(read) if len(body) > THREAD_BYTES else read()
    except NotAnObject as error:
        raise invalid("", str(error)) from None
    turns = None if call.batched else partial(in_turn, call)
    return await store.patch(call.writer, place, change, query.expires_at, turns)


@routes.get(
    "/v1/documents/{collection}/{document_id}",
    scope="documents:read",
    response_model=Any,
    errors=(DocumentNotFound,),
)
async def get_document(call: Call, collection: str, document_id: str) -> Answer:
    """The body of a document, byte for byte, with its revision as the ETag."""
    return await store.get(call.reader, call.tenant_id, collection, document_id)


@routes.delete(
    "/v1/documents/{collection}/{document_id}",
    scope="documents:write",
    status_code=204,
    errors=(DocumentNotFound, PreconditionFailed),
)
async def delete_document(call: Call, collection: str, document_id: str) -> Answer:
    """Delete a document with its revisions."""
    return await store.delete(call.writer, Place(call.tenant_id, collection, document_id, call.if_match))


@routes.get(
    "/v1/documents/{collection}/{document_id}/revisions",
    scope="documents:read",
    response_model=RevisionPage,
    errors=(DocumentNotFound,),
)
async def list_document_revisions(call: Call, collection: str, document_id: str, query: RevisionList) -> Answer:
    """The earlier revisions of a document that are kept, the newest first: as many as `history` of its collection."""
    wanted = asked(call, query, store.REVISION.included(query.include))
    paths = await store.uncut(call.reader, call.tenant_id, collection)
    given = {"collection": collection, "id": document_id}
    found = await store.REVISIONS.page(call.reader, call.tenant_id, wanted, given)
    if not found.items:
        await store.require(call.reader, call.tenant_id, collection, document_id)
    if paths and wanted.include:
        found = Found(await store.without_secrets(found.items, paths), found.next_cursor, found.total)
    return answered(call, found)


@routes.post(
    "/v1/documents/{collection}/query",
    scope="documents:read",
    response_model=DocumentPage,
    reads=True,
)
async def query_documents(call: Call, collection: str, query: IncludeQuery, body: DocumentQuery) -> Answer:
    """The documents of a collection that meet every condition, in the order in which they were first stored.

    Bodies are shown where `include` names `body`, here or in the query string. An unknown collection has no documents.
    """
    settings = call.ground.settings
    limit = body.limit or settings.page_limit_default
    if limit > settings.page_limit_max:
        raise invalid("/limit", f"must be at most {settings.page_limit_max}")
    include = DOCUMENT.included(query.include) | frozenset(body.include or ())
    page = Page(limit, body.cursor, body.sort, body.order, include)
    found = await listing.query(call.reader, call.tenant_id, collection, page, body.contains, body.in_)
    return Answer(200, found.body())
