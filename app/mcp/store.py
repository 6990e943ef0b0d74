"""MCP servers in SQL."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import changed
from app.mcp.errors import McpServerConflict, McpServerInUse, McpServerNotFound

FIELDS = (
    "publisher_id",
    "slug",
    "display_name",
    "short_description",
    "long_description",
    "homepage_url",
    "repo_url",
    "logo_url",
    "visibility",
)

SERVER = Shape("id", *FIELDS, instant("created_at"), instant("updated_at"))
SERVERS = Listing(
    "mcp_servers",
    "mcp_servers AS t",
    SERVER,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "publisher_id": "t.publisher_id = :publisher_id",
        "slug": "t.slug = :slug",
        "visibility": "t.visibility = ANY (CAST(:visibility AS text[]))",
        "q": "(position(lower(:q) IN t.slug) > 0 OR position(lower(:q) IN lower(t.display_name)) > 0"
        " OR position(lower(:q) IN lower(t.short_description)) > 0)",
    },
)

_SQL = load(
    __file__,
    server=SERVER.json("s"),
    changes=", ".join(f"{name} = CASE WHEN :set_{name} THEN :{name} ELSE s.{name} END" for name in FIELDS),
)


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Register a server: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `McpServerConflict`, `McpSlugTaken`.
    """
    server_id = given.get("id") or new_id("mcp")
    digest = digest_of({**given, "id": server_id})

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=server_id)
        if stored is not None and stored["digest"] != digest:
            raise McpServerConflict("A server with this id was created with other fields.", id=server_id)

    fields = {name: given.get(name) for name in FIELDS} | {"visibility": given.get("visibility", "private")}
    return await decided(writer, _SQL["create"], why, tenant_id=tenant_id, id=server_id, digest=digest, **fields)


async def patch(
    writer: Writer, tenant_id: str, server_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `McpServerNotFound`, `PreconditionFailed`, `McpSlugTaken`."""
    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    answer = await writer.answer(_SQL["patch"], tenant_id=tenant_id, id=server_id, if_match=if_match, **fields, **named)
    if answer is None:
        raise changed("server", (await get(writer, tenant_id, server_id)).etag)
    return answer


async def get(reader: Reader, tenant_id: str, server_id: str) -> Answer:
    """The server. Raises `McpServerNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=server_id)
    if row is None:
        raise McpServerNotFound("There is no such MCP server.", id=server_id)
    return Answer(200, row["body"], row["revision"])


async def delete(writer: Writer, tenant_id: str, server_id: str, if_match: list[int] | None) -> Answer:
    """Delete a server with its versions and tools; in a transaction.

    Raises `McpServerNotFound`, `PreconditionFailed`, `McpServerInUse` where configurations refer to it.
    """
    locked = await writer.row(_SQL["lock"], tenant_id=tenant_id, id=server_id)
    if locked is None:
        raise McpServerNotFound("There is no such MCP server.", id=server_id)
    if if_match is not None and locked["revision"] not in if_match:
        raise changed("server", locked["revision"])
    referring = await writer.rows(_SQL["referring"], tenant_id=tenant_id, id=server_id)
    if referring:
        raise McpServerInUse("Configurations refer to this server.", config_ids=[row["id"] for row in referring])
    for part in ("lock_versions", "delete_tools", "delete_versions"):
        await writer.rows(_SQL[part], tenant_id=tenant_id, id=server_id)
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=server_id)
    assert answer is not None
    return answer
