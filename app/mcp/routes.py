"""MCP servers over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.mcp import store
from app.mcp.errors import McpServerConflict, McpServerInUse, McpServerNotFound, McpSlugTaken
from app.mcp.schemas import McpServer, McpServerChange, McpServerList, McpServerPage, NewMcpServer

routes = Routes("mcp")


@routes.post(
    "/v1/mcp/servers",
    scope="mcp:write",
    response_model=McpServer,
    status_code=201,
    errors=(McpServerConflict, McpSlugTaken),
)
async def create_mcp_server(call: Call, body: NewMcpServer) -> Answer:
    """Register an MCP server. The same id with the same fields answers 200 with the server as it now is."""
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/mcp/servers", scope="mcp:read", response_model=McpServerPage)
async def list_mcp_servers(call: Call, query: McpServerList) -> Answer:
    """The MCP servers of this tenant, the newest first."""
    return await page(call, store.SERVERS, query)


@routes.get("/v1/mcp/servers/{server_id}", scope="mcp:read", response_model=McpServer, errors=(McpServerNotFound,))
async def get_mcp_server(call: Call, server_id: str) -> Answer:
    """An MCP server."""
    return await store.get(call.reader, call.tenant_id, server_id)


@routes.patch(
    "/v1/mcp/servers/{server_id}",
    scope="mcp:write",
    response_model=McpServer,
    errors=(McpServerNotFound, McpSlugTaken),
)
async def patch_mcp_server(call: Call, server_id: str, body: McpServerChange) -> Answer:
    """Update the fields given; the publisher stays."""
    return await store.patch(call.writer, call.tenant_id, server_id, body.given(), call.if_match)


@routes.delete(
    "/v1/mcp/servers/{server_id}",
    scope="mcp:write",
    status_code=204,
    transactional=True,
    errors=(McpServerNotFound, McpServerInUse),
)
async def delete_mcp_server(call: Call, server_id: str) -> Answer:
    """Delete a server with its versions and tools, unless configurations refer to it."""
    return await store.delete(call.writer, call.tenant_id, server_id, call.if_match)
