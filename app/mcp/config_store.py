"""Each user's configurations of MCP servers in SQL. No secret value reaches a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import changed, invalid
from app.mcp.config_schemas import CONFIGS_MAX
from app.mcp.errors import McpConfigConflict, McpConfigNotFound, McpConfigsFull
from app.mcp.names import names_of
from app.mcp.secrecy import refuse_secrets

CONFIG_BYTES_MAX = 64 * 1024
FIELDS = ("name", "server_id", "config", "enabled")

CONFIG = Shape("id", "user_id", *FIELDS, instant("created_at"), instant("updated_at"))
CONFIGS = Listing(
    "mcp_configs",
    "mcp_configs AS t",
    CONFIG,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz"), "name": Sort("{t}.name", "text")},
    default=("created_at", "desc"),
    filters={
        "user_id": "t.user_id = :user_id",
        "server_id": "t.server_id = :server_id",
        "has_server": "(t.server_id IS NOT NULL) = :has_server",
        "enabled": "t.enabled = :enabled",
    },
)

_SQL = load(__file__, "config_queries.sql", config=CONFIG.json("c"))


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Add a configuration: 201, or 200 with the row as it now is when it was created with the same fields.

    Needs a transaction. Raises `SecretRefused`, `McpConfigConflict`, `McpConfigsFull`, `McpServerNotFound`, and
    `InvalidInput` where neither a server nor a `command` is named.
    """
    await asyncio.to_thread(_refuse, given, "")
    config_id = given.get("id") or new_id("mcpc")
    digest = digest_of({**given, "id": config_id})
    await _enter(writer, tenant_id, given["user_id"])
    stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=config_id)
    if stored is None:
        return await _created(writer, tenant_id, config_id, given, digest)
    if stored["digest"] != digest:
        raise McpConfigConflict("A configuration with this id was created with other fields.", id=config_id)
    return Answer(200, stored["body"], stored["revision"])


async def ensure(
    writer: Writer,
    tenant_id: str,
    config_id: str,
    given: dict[str, Any],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> Answer:
    """Create the configuration if that is allowed, or update the fields given. Needs a transaction.

    Raises as `create` and `patch`; `McpConfigConflict` where it is another user's.
    """
    await asyncio.to_thread(_refuse, given, "")
    await _enter(writer, tenant_id, given["user_id"])
    stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=config_id)
    if stored is None:
        if not may_create:
            raise changed("configuration", None)
        digest = digest_of({**given, "id": config_id})
        return await _created(writer, tenant_id, config_id, given, digest)
    if stored["user_id"] != given["user_id"]:
        raise McpConfigConflict("The configuration is another user's.", id=config_id)
    return await _patched(writer, tenant_id, config_id, stored, given, if_match)


async def patch(
    writer: Writer, tenant_id: str, config_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given; `config` is replaced whole. Needs a transaction.

    Raises `SecretRefused`, `McpConfigNotFound`, `PreconditionFailed`, `McpConfigConflict` (the name is another's).
    """
    await asyncio.to_thread(_refuse, given, "")
    stored = await _held(writer, tenant_id, config_id)
    return await _patched(writer, tenant_id, config_id, stored, given, if_match)


async def delete(writer: Writer, tenant_id: str, config_id: str, if_match: list[int] | None) -> Answer:
    """Delete a configuration. Needs a transaction. Raises `McpConfigNotFound`, `PreconditionFailed`."""
    stored = await _held(writer, tenant_id, config_id)
    key = {"tenant_id": tenant_id, "user_id": stored["user_id"]}
    if not await writer.rows(_SQL["delete"], id=config_id, if_match=if_match, **key):
        raise changed("configuration", stored["revision"])
    await writer.row(_SQL["moved"], **key)
    return Answer(204, None)


async def put_all(
    writer: Writer, tenant_id: str, user_id: str, items: Sequence[Mapping[str, Any]], if_match: list[int] | None
) -> Answer:
    """Make these a user's configurations, by name: add, change and remove what differs, all or nothing.

    Needs a transaction. Raises `SecretRefused`, `PreconditionFailed` where the set has changed meanwhile,
    `McpServerNotFound`, `InvalidInput` where a name comes twice or neither a server nor a `command` is named.
    """
    names = names_of(items)
    await asyncio.to_thread(_refuse_all, items)
    key = {"tenant_id": tenant_id, "user_id": user_id}
    standing = await _enter(writer, tenant_id, user_id)
    if if_match is not None and standing["revision"] not in if_match:
        raise changed("set of configurations", standing["revision"])
    removed = await writer.rows(_SQL["remove_others"], names=names, **key)
    written = await writer.rows(
        _SQL["put_all"],
        ids=[new_id("mcpc") for _ in items],
        names=names,
        server_ids=[item.get("server_id") for item in items],
        configs=[item.get("config") for item in items],
        enableds=[item.get("enabled") for item in items],
        **key,
    )
    if removed or written:
        await writer.row(_SQL["moved"], **key)
    return await get_all(writer, tenant_id, user_id)


async def get_all(reader: Reader, tenant_id: str, user_id: str) -> Answer:
    """A user's configurations by name; the ETag is the set's, 0 where there never were any."""
    row = await reader.row(_SQL["all"], tenant_id=tenant_id, user_id=user_id)
    assert row is not None
    return Answer(200, row["body"], row["revision"])


async def get(reader: Reader, tenant_id: str, config_id: str) -> Answer:
    """The configuration. Raises `McpConfigNotFound`."""
    row = await _standing(reader, tenant_id, config_id)
    return Answer(200, row["body"], row["revision"])


async def _standing(reader: Reader, tenant_id: str, config_id: str) -> Any:
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=config_id)
    if row is None:
        raise McpConfigNotFound("There is no such configuration.", id=config_id)
    return row


async def _enter(writer: Writer, tenant_id: str, user_id: str) -> Any:
    return await writer.row(_SQL["enter"], tenant_id=tenant_id, user_id=user_id)


async def _held(writer: Writer, tenant_id: str, config_id: str) -> Any:
    """The row as it stands, its user's set being held: a configuration never changes its user."""
    user_id = (await _standing(writer, tenant_id, config_id))["user_id"]
    await _enter(writer, tenant_id, user_id)
    return await _standing(writer, tenant_id, config_id)


async def _created(writer: Writer, tenant_id: str, config_id: str, given: Mapping[str, Any], digest: bytes) -> Answer:
    key = {"tenant_id": tenant_id, "user_id": given["user_id"]}
    counted = await writer.row(_SQL["count"], **key)
    if counted is not None and counted["count"] >= CONFIGS_MAX:
        raise McpConfigsFull("The user has as many configurations as there may be.", limit=CONFIGS_MAX)
    fields = {name: given.get(name) for name in FIELDS} | {"enabled": given.get("enabled", True)}
    row = await writer.row(_SQL["create"], id=config_id, digest=digest, **key, **fields)
    if row is None:
        # Taken meanwhile, under another user: those of one user take turns.
        raise McpConfigConflict("A configuration with this id was created with other fields.", id=config_id)
    await writer.row(_SQL["moved"], **key)
    return Answer(201, row["body"], row["revision"])


async def _patched(
    writer: Writer,
    tenant_id: str,
    config_id: str,
    stored: Any,
    given: Mapping[str, Any],
    if_match: list[int] | None,
) -> Answer:
    key = {"tenant_id": tenant_id, "user_id": stored["user_id"]}
    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    row = await writer.row(_SQL["patch"], id=config_id, if_match=if_match, **key, **fields, **named)
    if row is None:
        raise changed("configuration", stored["revision"])
    await writer.row(_SQL["moved"], **key)
    return Answer(200, row["body"], row["revision"])


# In a thread: a long text may take a while to look through, and others need not wait for it.
def _refuse_all(items: Sequence[Mapping[str, Any]]) -> None:
    for place, item in enumerate(items):
        _refuse(item, f"/items/{place}")


def _refuse(given: Mapping[str, Any], pointer: str) -> None:
    config = given.get("config")
    if config is None:
        return
    if len(config) > CONFIG_BYTES_MAX:
        raise invalid(f"{pointer}/config", f"must be at most {CONFIG_BYTES_MAX} bytes")
    refuse_secrets(f"{pointer}/config", config)
