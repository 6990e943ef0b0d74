"""Spaces of embeddings over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.jobs.schemas import Job
from app.memory import embedding_store
from app.memory import space_store as store
from app.memory.errors import (
    MemorySpaceActive,
    MemorySpaceConflict,
    MemorySpaceIncomplete,
    MemorySpaceNotFound,
    MemorySpacesFull,
)
from app.memory.space_schemas import Activation, NewSpace, Space, SpaceList, SpacePage

routes = Routes("memory")


@routes.put(
    "/v1/memory/spaces/{name}",
    scope="memory:write",
    response_model=Space,
    status_code=201,
    transactional=True,
    batchable=False,
    errors=(MemorySpaceConflict, MemorySpacesFull),
)
async def put_memory_space(call: Call, name: str, body: NewSpace) -> Answer:
    """Make a space for the embeddings of one model; the first one is active at once.

    The same fields again answer 200, others 409 with what the space has: it keeps its model, dimensions, metric and
    language. To change them, make another space, `reembed` it and activate it.
    """
    return await store.put(
        call.writer, call.tenant_id, name, body.model_dump(), call.if_match, may_create=call.may_create
    )


@routes.get("/v1/memory/spaces", scope="memory:read", response_model=SpacePage)
async def list_memory_spaces(call: Call, query: SpaceList) -> Answer:
    """The spaces of this tenant, by name."""
    return await page(call, store.SPACES, query)


@routes.get("/v1/memory/spaces/{name}", scope="memory:read", response_model=Space, errors=(MemorySpaceNotFound,))
async def get_memory_space(call: Call, name: str) -> Answer:
    """A space."""
    return await store.get(call.reader, call.tenant_id, name)


@routes.post(
    "/v1/memory/spaces/{name}/activate",
    scope="memory:write",
    response_model=Space,
    transactional=True,
    errors=(MemorySpaceNotFound, MemorySpaceIncomplete),
)
async def activate_memory_space(call: Call, name: str, body: Activation) -> Answer:
    """Let searches use this space from now on, unless they name another.

    Refused while items have no embedding in it, unless `allow_incomplete` is given. The space before goes on being
    written to, until it is deleted: so it can be activated again.
    """
    return await store.activate(
        call.writer, call.tenant_id, name, call.if_match, allow_incomplete=body.allow_incomplete
    )


@routes.post(
    "/v1/memory/spaces/{name}/reembed",
    scope="memory:write",
    response_model=Job,
    status_code=202,
    transactional=True,
    batchable=False,
    errors=(MemorySpaceNotFound,),
)
async def reembed_memory_space(call: Call, name: str) -> Answer:
    """Embed whatever has no embedding in this space, as a job.

    From now on the space is filling: what is written meanwhile is embedded for it too. The job counts what was embedded
    and what failed, and its report names the first that did. Again while it runs answers the same job; again afterwards
    tries what has failed. Where no embedding service is configured the job fails, with `embedder_missing`, and who
    sends embeddings for the space fills it.
    """
    return await embedding_store.fill(call.writer, call.tenant_id, name, call.if_match)


@routes.post(
    "/v1/memory/spaces/{name}/reindex",
    scope="memory:write",
    response_model=Space,
    errors=(MemorySpaceNotFound,),
)
async def reindex_memory_space(call: Call, name: str) -> Answer:
    """Have the index of the space's nearest neighbours built anew, beside reads and writes.

    `index.state` is `building` until that is done; meanwhile the one before answers, if there was one. A space that has
    none yet gets one, however small it is.
    """
    return await store.reindex(call.writer, call.tenant_id, name, call.if_match)


@routes.delete(
    "/v1/memory/spaces/{name}",
    scope="memory:write",
    status_code=204,
    transactional=True,
    batchable=False,
    errors=(MemorySpaceNotFound, MemorySpaceActive),
)
async def delete_memory_space(call: Call, name: str) -> Answer:
    """Delete a space that is not active, with its embeddings; documents and records stay."""
    return await store.delete(call.writer, call.tenant_id, name, call.if_match)
