"""The nodes of versions in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from app.db.database import Answer, Reader, Writer
from app.db.digest import JsonText, digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, array, computed, instant
from app.db.sql import load
from app.errors import changed
from app.versions.errors import VersionNotFound
from app.versions.node_errors import NodeVersionConflict, NodeVersionMissing

WORDS = ("system_prompt", "llm_model", "description")
LISTS = ("tools", "handoffs", "waiting_for")

NODE_VERSION = Shape(
    "id",
    "version_id",
    "node_id",
    "revision",
    "system_prompt",
    "llm_model",
    "tools",
    "description",
    "handoffs",
    "waiting_for",
    "memory",
    "extras",
    computed("config_hash", "encode({t}.config_hash, 'hex')"),
    instant("created_at"),
)

NODE_VERSIONS = Listing(
    "node_versions",
    "node_versions AS t",
    NODE_VERSION,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "asc"),
    filters={
        "version_id": "t.version_id = :version_id",
        "llm_model": "t.llm_model = ANY (:llm_model)",
        "not_llm_model": "(t.llm_model IS NULL OR t.llm_model <> ALL (:not_llm_model))",
        "node_id": "t.node_id = ANY (:node_id)",
    },
)

_SQL = load(__file__, "node_queries.sql", node_version=NODE_VERSION.json("n"))


def config_hash(node: Mapping[str, Any]) -> bytes:
    """The digest of a node's configuration; a member left out counts as its default."""
    return digest_of(
        {name: node.get(name) for name in (*WORDS, "memory")}
        | {name: node.get(name) or [] for name in LISTS}
        | {"extras": JsonText(node.get("extras") or b"{}")}
    )


async def hold(writer: Writer, tenant_id: str, version_id: str) -> bool:
    """Lock the version to the end of the transaction; False where there is none."""
    return bool(await writer.rows(_SQL["lock"], tenant_id=tenant_id, version_id=version_id))


async def record(writer: Writer, tenant_id: str, version_id: str, nodes: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """The JSON of each node version, in the order given: stored now, or the revision that had the configuration.

    Needs a transaction: it locks the version first. Raises `VersionNotFound`, `NodeVersionConflict`.
    """
    return [row["body"] for row in await recorded(writer, tenant_id, version_id, nodes)]


async def recorded(
    writer: Writer, tenant_id: str, version_id: str, nodes: Sequence[Mapping[str, Any]]
) -> list[asyncpg.Record]:
    """`record`, with `id` and `fresh` (whether it was stored now) beside each `body`."""
    if not await hold(writer, tenant_id, version_id):
        raise VersionNotFound("There is no such version.", id=version_id)
    rows = await writer.rows(
        _SQL["record"],
        tenant_id=tenant_id,
        version_id=version_id,
        ids=[node.get("id") or new_id("nv") for node in nodes],
        node_ids=[node["node_id"] for node in nodes],
        hashes=[config_hash(node) for node in nodes],
        lists=[json.dumps([node.get(name) or [] for name in LISTS]).encode() for node in nodes],
        memories=[node.get("memory") for node in nodes],
        extras=[node.get("extras") for node in nodes],
        **{f"{name}s": [node.get(name) for node in nodes] for name in WORDS},
    )
    for node, row in zip(nodes, rows, strict=True):
        if node.get("id") not in (None, row["id"]):
            raise NodeVersionConflict("The configuration is stored under another id.", id=row["id"])
    return rows


async def create(writer: Writer, tenant_id: str, version_id: str, nodes: Sequence[Mapping[str, Any]]) -> Answer:
    """`record`, as `{"items": [...]}`: 201 if any configuration is new, else 200."""
    rows = await recorded(writer, tenant_id, version_id, nodes)
    status = 201 if any(row["fresh"] for row in rows) else 200
    return Answer(status, b'{"items":' + array(row["body"] for row in rows) + b"}")


async def create_one(writer: Writer, tenant_id: str, version_id: str, node: Mapping[str, Any]) -> Answer:
    """`record` for one node, as itself: 201 if the configuration is new, else 200."""
    (row,) = await recorded(writer, tenant_id, version_id, [node])
    return Answer(201 if row["fresh"] else 200, row["body"])


async def memory(reader: Reader, tenant_id: str, version_id: str, node_id: str) -> Answer:
    """A node's memory; that of its newest revision until it is written. Raises `NodeVersionMissing`."""
    row = await reader.row(_SQL["memory"], tenant_id=tenant_id, version_id=version_id, node_id=node_id)
    if row is None:
        raise NodeVersionMissing("The version has no such node.", node_id=node_id)
    return Answer(200, row["body"], row["revision"])


async def write_memory(
    writer: Writer,
    tenant_id: str,
    version_id: str,
    node_id: str,
    memory_or_patch: bytes,
    if_match: list[int] | None,
    *,
    merge: bool,
) -> Answer:
    """Replace a node's memory, or merge into it (RFC 7396). Raises `NodeVersionMissing`, `PreconditionFailed`."""

    async def why() -> None:
        current = await memory(writer, tenant_id, version_id, node_id)
        if if_match is not None and current.etag not in if_match:
            raise changed("memory", current.etag)

    return await decided(
        writer,
        _SQL["write_memory"],
        why,
        tenant_id=tenant_id,
        version_id=version_id,
        node_id=node_id,
        memory=memory_or_patch,
        merge=merge,
        if_match=if_match,
    )
