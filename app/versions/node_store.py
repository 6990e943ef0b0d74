"""The nodes of versions in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from app.db.database import Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.versions.errors import VersionNotFound
from app.versions.node_errors import NodeVersionConflict

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

_SQL = load(__file__, "node_queries.sql", node_version=NODE_VERSION.json("n"))


def config_hash(node: Mapping[str, Any]) -> bytes:
    """The digest of a node's configuration; a member left out counts as its default."""
    return digest_of(
        {name: node.get(name) for name in (*WORDS, "memory")}
        | {name: node.get(name) or [] for name in LISTS}
        | {"extras": node.get("extras") or b"{}"}
    )


async def record(writer: Writer, tenant_id: str, version_id: str, nodes: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """The JSON of each node version, in the order given: stored now, or the revision that had the configuration.

    Needs a transaction: it locks the version first. Raises `VersionNotFound`, `NodeVersionConflict`.
    """
    return [row["body"] for row in await recorded(writer, tenant_id, version_id, nodes)]


async def recorded(
    writer: Writer, tenant_id: str, version_id: str, nodes: Sequence[Mapping[str, Any]]
) -> list[asyncpg.Record]:
    """`record`, with `id` and `fresh` (whether it was stored now) beside each `body`."""
    if not await writer.rows(_SQL["lock"], tenant_id=tenant_id, version_id=version_id):
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
