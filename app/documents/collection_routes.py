"""Collections of documents over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.documents import collection_store as store
from app.documents.errors import CollectionNotFound
from app.documents.rules import key_of
from app.documents.schemas import Collection, CollectionList, CollectionPage, CollectionRules, Deleted
from app.errors import PreconditionFailed, invalid
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.jobs import store as jobs
from app.jobs.schemas import Job

routes = Routes("documents")


@routes.get("/v1/documents", scope="documents:read", response_model=CollectionPage)
async def list_collections(call: Call, query: CollectionList) -> Answer:
    """The collections of this tenant, by name, each with how many documents it has."""
    return await page(call, store.COLLECTIONS, query)


@routes.put(
    "/v1/documents/{collection}",
    scope="documents:write",
    response_model=Collection,
    status_code=201,
    transactional=True,
    errors=(PreconditionFailed,),
    responses={202: {"model": Job, "description": "The rules hold, and the job cuts what was stored before."}},
)
async def put_collection(call: Call, collection: str, body: CollectionRules) -> Answer:
    """Make a collection (201), or change the rules that are given (200). They hold from then on.

    What lies at a path that is newly secret is cut from what is stored, revisions too: at once, or, where that is much,
    by a job (202). No read shows it meanwhile.
    """
    call.moved.append(key_of(call.tenant_id))
    answer, left = await store.put(
        call.writer, call.tenant_id, collection, body.given(), call.if_match, may_create=call.may_create
    )
    if left is None:
        return answer
    if call.batched:
        raise invalid("secret_paths", "cannot be added inside a batch to so many documents: that is a job")
    return await jobs.create(call.writer, call.tenant_id, store.CUT_KIND, left.arguments())


@routes.get(
    "/v1/documents/{collection}", scope="documents:read", response_model=Collection, errors=(CollectionNotFound,)
)
async def get_collection(call: Call, collection: str) -> Answer:
    """The rules of a collection, and how many documents it has."""
    return await store.get(call.reader, call.tenant_id, collection)


@routes.delete(
    "/v1/documents/{collection}",
    scope="documents:write",
    response_model=Deleted,
    transactional=True,
    errors=(CollectionNotFound, PreconditionFailed),
)
async def delete_collection(call: Call, collection: str) -> Answer:
    """Delete a collection with its rules and all its documents, and say how many there were."""
    call.moved.append(key_of(call.tenant_id))
    deleted = await store.delete(call.writer, call.tenant_id, collection, call.if_match)
    return Answer(200, b'{"deleted":%d}' % deleted)
