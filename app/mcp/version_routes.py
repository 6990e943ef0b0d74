"""The versions of MCP servers and their tools over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.mcp import store, tool_store, version_store
from app.mcp.errors import (
    McpServerNotFound,
    McpToolConflict,
    McpToolNotFound,
    McpTransitionRefused,
    McpVersionConflict,
    McpVersionNotFound,
    McpVersionReleased,
)
from app.mcp.version_schemas import (
    McpTool,
    McpToolList,
    McpToolPage,
    McpTools,
    McpVersion,
    McpVersionChange,
    McpVersionList,
    McpVersionPage,
    NewMcpTool,
    NewMcpTools,
    NewMcpVersion,
)

routes = Routes("mcp")
VERSIONS = "/v1/mcp/servers/{server_id}/versions"
VERSION = VERSIONS + "/{version_id}"
TOOLS = VERSION + "/tools"


@routes.post(
    VERSIONS,
    scope="mcp:write",
    response_model=McpVersion,
    status_code=201,
    errors=(McpServerNotFound, McpVersionConflict),
)
async def create_mcp_version(call: Call, server_id: str, body: NewMcpVersion) -> Answer:
    """Register a version of a server. Its id and its `version` are each its own within the server."""
    return await version_store.create(call.writer, call.tenant_id, server_id, body.given())


@routes.get(VERSIONS, scope="mcp:read", response_model=McpVersionPage, errors=(McpServerNotFound,))
async def list_mcp_versions(call: Call, server_id: str, query: McpVersionList) -> Answer:
    """The versions of a server, the newest first."""
    return await page(
        call,
        version_store.VERSIONS,
        query,
        {**query.filters(), "server_id": server_id},
        if_empty=lambda: store.get(call.reader, call.tenant_id, server_id),
    )


@routes.get(VERSION, scope="mcp:read", response_model=McpVersion, errors=(McpVersionNotFound,))
async def get_mcp_version(call: Call, server_id: str, version_id: str) -> Answer:
    """A version of a server."""
    return await version_store.get(call.reader, call.tenant_id, server_id, version_id)


@routes.patch(
    VERSION,
    scope="mcp:write",
    response_model=McpVersion,
    errors=(McpVersionNotFound, McpVersionConflict, McpVersionReleased, McpTransitionRefused),
)
async def patch_mcp_version(call: Call, server_id: str, version_id: str, body: McpVersionChange) -> Answer:
    """Update the fields given. Once released, a version only moves to yanked and back, is listed or not, and has
    its release notes mended.
    """
    return await version_store.patch(call.writer, call.tenant_id, server_id, version_id, body.given(), call.if_match)


@routes.delete(
    VERSION,
    scope="mcp:write",
    status_code=204,
    transactional=True,
    errors=(McpVersionNotFound, McpVersionReleased),
)
async def delete_mcp_version(call: Call, server_id: str, version_id: str) -> Answer:
    """Delete a version that was never released, with its tools."""
    return await version_store.delete(call.writer, call.tenant_id, server_id, version_id, call.if_match)


@routes.post(
    TOOLS,
    scope="mcp:write",
    response_model=McpTool | McpTools,
    status_code=201,
    errors=(McpVersionNotFound, McpVersionReleased, McpToolConflict),
)
async def add_mcp_tools(call: Call, server_id: str, version_id: str, body: NewMcpTool | NewMcpTools) -> Answer:
    """Add one tool to a version, or up to 1,000 as `{"items": [...]}`: all of them, or none.

    A name that is there with the same fields is a replay; with others it is 409, and so is anything new once the
    version is released.
    """
    if isinstance(body, NewMcpTools):
        tools = [tool.given() for tool in body.items]
        return await tool_store.record(call.writer, call.tenant_id, server_id, version_id, tools)
    return await tool_store.record(call.writer, call.tenant_id, server_id, version_id, [body.given()], single=True)


@routes.get(TOOLS, scope="mcp:read", response_model=McpToolPage, errors=(McpVersionNotFound,))
async def list_mcp_tools(call: Call, server_id: str, version_id: str, query: McpToolList) -> Answer:
    """The tools of a version, by name."""
    return await page(
        call,
        tool_store.TOOLS,
        query,
        {**query.filters(), "server_id": server_id, "version_id": version_id},
        if_empty=lambda: version_store.standing(call.reader, call.tenant_id, server_id, version_id),
    )


@routes.get(
    TOOLS + "/{tool_name}", scope="mcp:read", response_model=McpTool, errors=(McpVersionNotFound, McpToolNotFound)
)
async def get_mcp_tool(call: Call, server_id: str, version_id: str, tool_name: str) -> Answer:
    """A tool of a version."""
    return await tool_store.get(call.reader, call.tenant_id, server_id, version_id, tool_name)


@routes.delete(
    TOOLS + "/{tool_name}",
    scope="mcp:write",
    status_code=204,
    errors=(McpVersionNotFound, McpToolNotFound, McpVersionReleased),
)
async def delete_mcp_tool(call: Call, server_id: str, version_id: str, tool_name: str) -> Answer:
    """Take a tool off a version that is not released."""
    return await tool_store.delete(call.writer, call.tenant_id, server_id, version_id, tool_name)
