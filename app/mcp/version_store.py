"""The versions of MCP servers in SQL."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import AppError, changed
from app.mcp.errors import McpTransitionRefused, McpVersionConflict, McpVersionNotFound, McpVersionReleased

FIELDS = (
    "version",
    "status",
    "mcp_spec_version",
    "manifest_hash",
    "capabilities",
    "listed",
    "release_notes",
    "source_ref",
    "tools_list_changed",
    "prompts_list_changed",
    "resources_list_changed",
    "resources_subscribe",
)
# What may be said of a version after its release.
OPEN_FIELDS = frozenset({"listed", "status", "release_notes"})
FIXED = ("released", "yanked")

VERSION = Shape("id", "server_id", *FIELDS, instant("released_at"), instant("created_at"), instant("updated_at"))
VERSIONS = Listing(
    "mcp_versions",
    "mcp_versions AS t",
    VERSION,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "server_id": "t.server_id = :server_id",
        "status": "t.status = ANY (CAST(:status AS text[]))",
        "version": "t.version = :version",
        "listed": "t.listed = :listed",
    },
)

_SQL = load(
    __file__,
    "version_queries.sql",
    version=VERSION.json("v"),
    changes=", ".join(
        f"{name} = CASE WHEN :set_{name} THEN "
        + (f"COALESCE(:{name}, CAST('{{}}' AS jsonb))" if name == "capabilities" else f":{name}")
        + f" ELSE v.{name} END"
        for name in FIELDS
    ),
)


async def create(writer: Writer, tenant_id: str, server_id: str, given: dict[str, Any]) -> Answer:
    """Register a version: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `McpServerNotFound`, `McpVersionConflict`.
    """
    version_id = given.get("id") or new_id("mcpv")
    digest = digest_of({**given, "id": version_id})
    key = {"tenant_id": tenant_id, "server_id": server_id, "id": version_id}

    async def why() -> None:
        stored = await writer.row(_SQL["get"], **key)
        if stored is not None and stored["digest"] != digest:
            raise McpVersionConflict("A version with this id was created with other fields.", id=version_id)

    fields = {name: given.get(name) for name in FIELDS}
    fields |= {"status": given.get("status", "draft"), "listed": given.get("listed", True)}
    return await decided(writer, _SQL["create"], why, digest=digest, **key, **fields)


async def patch(
    writer: Writer, tenant_id: str, server_id: str, version_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given.

    Raises `McpVersionNotFound`, `PreconditionFailed`, `McpVersionReleased` for what a release has frozen,
    `McpTransitionRefused`, `McpVersionConflict` (the name is another's).
    """
    key = {"tenant_id": tenant_id, "server_id": server_id, "id": version_id}
    frozen = sorted(given.keys() - OPEN_FIELDS)

    async def why() -> None:
        stored = await standing(writer, tenant_id, server_id, version_id)
        if if_match is not None and stored["revision"] not in if_match:
            raise changed("version", stored["revision"])
        if frozen and stored["status"] in FIXED:
            raise released(stored, frozen_fields=frozen)
        raise McpTransitionRefused(
            f"A version that is {stored['status']} does not become {given.get('status')}.",
            current_status=stored["status"],
        )

    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    return await decided(writer, _SQL["patch"], why, if_match=if_match, frozen=bool(frozen), **key, **fields, **named)


async def get(reader: Reader, tenant_id: str, server_id: str, version_id: str) -> Answer:
    """The version. Raises `McpVersionNotFound`."""
    row = await standing(reader, tenant_id, server_id, version_id)
    return Answer(200, row["body"], row["revision"])


async def standing(reader: Reader, tenant_id: str, server_id: str, version_id: str) -> Any:
    """Where the version stands. Raises `McpVersionNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, server_id=server_id, id=version_id)
    if row is None:
        raise McpVersionNotFound("The server has no such version.", id=version_id)
    return row


async def delete(writer: Writer, tenant_id: str, server_id: str, version_id: str, if_match: list[int] | None) -> Answer:
    """Delete a version that was never released, with its tools; in a transaction.

    Raises `McpVersionNotFound`, `PreconditionFailed`, `McpVersionReleased`.
    """
    key = {"tenant_id": tenant_id, "server_id": server_id, "id": version_id}
    locked = await writer.row(_SQL["lock"], **key)
    if locked is None:
        raise McpVersionNotFound("The server has no such version.", id=version_id)
    if if_match is not None and locked["revision"] not in if_match:
        raise changed("version", locked["revision"])
    if locked["status"] in FIXED:
        raise released(locked)
    await writer.rows(_SQL["delete_tools"], **key)
    answer = await writer.answer(_SQL["delete"], **key)
    assert answer is not None
    return answer


def released(stored: Any, **facts: Any) -> AppError:
    """The refusal of a change that a release forbids."""
    return McpVersionReleased(
        f"The version is {stored['status']}; it can be yanked, but not changed.",
        current_status=stored["status"],
        **facts,
    )
