"""The nodes of versions over HTTP: their configurations and their memory."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.fields import JsonObject
from app.http.paging import page
from app.versions import node_store, store
from app.versions.errors import VersionNotFound
from app.versions.node_errors import NodeVersionConflict, NodeVersionMissing
from app.versions.node_schemas import (
    NewNode,
    NewNodes,
    NodeVersion,
    NodeVersionList,
    NodeVersionPage,
    NodeVersions,
    NodeVersionSearch,
)

routes = Routes("node versions")
MEMORY = "/v1/versions/{version_id}/nodes/{node_id}/memory"


@routes.post(
    "/v1/versions/{version_id}/nodes",
    scope="versions:write",
    transactional=True,
    response_model=NodeVersion | NodeVersions,
    status_code=201,
    errors=(VersionNotFound, NodeVersionConflict),
)
async def record_node_versions(call: Call, version_id: str, body: NewNode | NewNodes) -> Answer:
    """Record the configuration of one node, or of many as `{"items": [...]}`: all of them, or none.

    The same configuration of a node is a replay and answers 200 with the revision that has it; another one is the
    node's next revision. 201 if any is new.
    """
    if isinstance(body, NewNodes):
        nodes = [node.given() for node in body.items]
        return await node_store.create(call.writer, call.tenant_id, version_id, nodes)
    return await node_store.create_one(call.writer, call.tenant_id, version_id, body.given())


@routes.get(
    "/v1/versions/{version_id}/nodes",
    scope="versions:read",
    response_model=NodeVersionPage,
    errors=(VersionNotFound,),
)
async def list_node_versions(call: Call, version_id: str, query: NodeVersionList) -> Answer:
    """The node versions of a version, every revision, in the order they were recorded."""
    return await page(
        call,
        node_store.NODE_VERSIONS,
        query,
        {**query.filters(), "version_id": version_id},
        if_empty=lambda: store.require(call.reader, call.tenant_id, version_id),
    )


@routes.get("/v1/node-versions", scope="versions:read", response_model=NodeVersionPage)
async def search_node_versions(call: Call, query: NodeVersionSearch) -> Answer:
    """Node versions across versions, by model and by node."""
    return await page(call, node_store.NODE_VERSIONS, query)


@routes.get(MEMORY, scope="versions:read", response_model=dict[str, Any], errors=(NodeVersionMissing,))
async def get_node_memory(call: Call, version_id: str, node_id: str) -> Answer:
    """A node's memory. Until it is written it is the memory of the node's newest revision."""
    return await node_store.memory(call.reader, call.tenant_id, version_id, node_id)


@routes.put(MEMORY, scope="versions:write", response_model=dict[str, Any], errors=(NodeVersionMissing,))
async def put_node_memory(call: Call, version_id: str, node_id: str, memory: JsonObject) -> Answer:
    """Replace a node's memory; `If-Match` refuses when it has changed meanwhile."""
    return await node_store.write_memory(
        call.writer, call.tenant_id, version_id, node_id, memory, call.if_match, merge=False
    )


@routes.patch(MEMORY, scope="versions:write", response_model=dict[str, Any], errors=(NodeVersionMissing,))
async def patch_node_memory(call: Call, version_id: str, node_id: str, patch: JsonObject) -> Answer:
    """Merge into a node's memory (RFC 7396): a null removes a member; `If-Match` refuses a changed one."""
    return await node_store.write_memory(
        call.writer, call.tenant_id, version_id, node_id, patch, call.if_match, merge=True
    )
