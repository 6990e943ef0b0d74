"""The tools of versions of MCP servers in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.integrity import IdsTaken
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, items, only
from app.db.sql import load
from app.mcp import version_store
from app.mcp.errors import McpToolConflict, McpToolNotFound
from app.mcp.names import names_of

COLUMNS = {
    "title": "titles",
    "display_title": "display_titles",
    "description": "descriptions",
    "input_schema": "input_schemas",
    "output_schema": "output_schemas",
    "annotations": "annotations",
    "traits": "traits",
    "active": "actives",
}

TOOL = Shape("name", "server_id", "version_id", *COLUMNS, instant("created_at"))
TOOLS = Listing(
    "mcp_tools",
    "mcp_tools AS t",
    TOOL,
    sorts={"name": Sort("{t}.name", "text")},
    default=("name", "asc"),
    filters={
        "server_id": "t.server_id = :server_id",
        "version_id": "t.version_id = :version_id",
        "active": "t.active = :active",
    },
    ids=("t.name",),
)

_TOOL = TOOL.json("t")
_ONE = load(__file__, "tool_queries.sql", tool=_TOOL, body=only(_TOOL))
_MANY = load(__file__, "tool_queries.sql", tool=_TOOL, body=items(_TOOL, "g.place"))


async def record(
    writer: Writer,
    tenant_id: str,
    server_id: str,
    version_id: str,
    tools: Sequence[Mapping[str, Any]],
    *,
    single: bool = False,
) -> Answer:
    """Add tools, all or none: 201 if any is new, else 200, in the order given; `single` answers the one itself.

    Raises `McpVersionNotFound`, `McpVersionReleased`, `McpToolConflict`, `InvalidInput` where a name comes twice.
    """
    names = names_of(tools)

    async def why() -> None:
        stored = await version_store.standing(writer, tenant_id, server_id, version_id)
        if stored["status"] in version_store.FIXED:
            raise version_store.released(stored)

    try:
        return await decided(
            writer,
            (_ONE if single else _MANY)["record"],
            why,
            tenant_id=tenant_id,
            server_id=server_id,
            version_id=version_id,
            names=names,
            digests=[digest_of(tool) for tool in tools],
            **{plural: [tool.get(name) for tool in tools] for name, plural in COLUMNS.items()},
        )
    except IdsTaken as taken:
        raise McpToolConflict("The version has these tools with other fields.", names=taken.ids) from taken


async def get(reader: Reader, tenant_id: str, server_id: str, version_id: str, name: str) -> Answer:
    """The tool. Raises `McpVersionNotFound`, `McpToolNotFound`."""
    row = await reader.row(_ONE["get"], tenant_id=tenant_id, server_id=server_id, version_id=version_id, name=name)
    if row is None:
        await version_store.standing(reader, tenant_id, server_id, version_id)
        raise McpToolNotFound("The version has no such tool.", name=name)
    return Answer(200, row["body"])


async def delete(writer: Writer, tenant_id: str, server_id: str, version_id: str, name: str) -> Answer:
    """Take a tool off a version that is not released. Raises `McpVersionReleased`, and as `get`."""
    answer = await writer.answer(
        _ONE["delete"], tenant_id=tenant_id, server_id=server_id, version_id=version_id, name=name
    )
    if answer is None:
        stored = await version_store.standing(writer, tenant_id, server_id, version_id)
        if stored["status"] in version_store.FIXED:
            raise version_store.released(stored)
        raise McpToolNotFound("The version has no such tool.", name=name)
    return answer
