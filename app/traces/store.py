"""A trace in SQL: three statements on one snapshot; PostgreSQL writes the JSON and the parts are joined as bytes."""

from __future__ import annotations

import json
from typing import Any

from app.db.database import Answer, Reader
from app.db.shape import array
from app.db.sql import load
from app.invocations.errors import InvocationNotFound
from app.invocations.store import INVOCATION
from app.messages.store import MESSAGE, MESSAGES
from app.nodes.store import ACTION, NODE, NODES
from app.versions.node_store import NODE_VERSION
from app.versions.store import VERSION

BYTES_MAX = 64 * 1024 * 1024
METRICS_MAX = 1000


def _bytes(column: str) -> str:
    """The SQL of a payload's size; only a compressed one is unpacked for it."""
    return (
        f"(CASE WHEN {column} IS NULL THEN 0 WHEN pg_column_compression({column}) IS NULL"
        f" THEN pg_column_size({column}) ELSE octet_length(CAST({column} AS text)) END)"
    )


def _seconds(alias: str) -> str:
    return f"EXTRACT(epoch FROM {alias}.ended_at - {alias}.started_at)"


_SQL = load(
    __file__,
    invocation=INVOCATION.json("i", INVOCATION.verbatim),
    version=VERSION.json("v", VERSION.verbatim),
    node=NODE.json("n", NODE.verbatim),
    node_version=NODE_VERSION.json("v"),
    action=ACTION.json("a", ACTION.verbatim),
    message=MESSAGE.json("m", MESSAGE.verbatim),
    output_bytes=_bytes("output"),
    action_bytes=f"{_bytes('a.input')} + {_bytes('a.output')}",
    payload_bytes=_bytes("payload"),
    seconds_of_node=_seconds("n"),
    seconds_of_invocation=_seconds("i"),
)


async def trace(reader: Reader, tenant_id: str, invocation_id: str, limit: int) -> Answer:
    """The record of an invocation, every payload once, byte for byte; the reader is one snapshot.

    At most `limit` nodes, messages, and actions of a node, and about `BYTES_MAX` bytes of payloads of nodes and of
    messages each; `more` says what is left out, with the cursors of the lists that go on. Raises `InvocationNotFound`.
    """
    head = await reader.row(_SQL["head"], tenant_id=tenant_id, invocation_id=invocation_id)
    if head is None:
        raise InvocationNotFound("There is no such invocation.", id=invocation_id)
    bounds = {"tenant_id": tenant_id, "invocation_id": invocation_id, "limit": limit, "budget": BYTES_MAX}
    nodes = await reader.rows(_SQL["nodes"], **bounds)
    messages = await reader.rows(_SQL["messages"], **bounds)
    read: dict[str, list[bytes]] = {}
    written: dict[str, list[bytes]] = {}
    for message in messages:
        if message["target"] is not None:
            read.setdefault(message["target"], []).append(message["shown_id"])
        if message["origin"] is not None:
            written.setdefault(message["origin"], []).append(message["shown_id"])
    within = {"invocation_id": invocation_id}
    more = {
        "nodes": NODES.cursor_after(tenant_id, within, nodes[-1]) if nodes and nodes[-1]["followed"] else None,
        "actions": [node["id"] for node in nodes if len(node["actions"] or ()) > limit],
        "messages": MESSAGES.cursor_after(tenant_id, within, messages[-1])
        if messages and messages[-1]["followed"]
        else None,
    }
    shown = (_node(node, limit, read.get(node["id"], []), written.get(node["id"], [])) for node in nodes)
    parts = [
        b'{"invocation":', head["invocation"], b',"version":', head["version"], b',"nodes":', array(shown),
        b',"messages":', array(message["body"] for message in messages), b',"more":', json.dumps(more).encode(), b"}",
    ]  # fmt: skip
    return Answer(200, b"".join(parts))


def _node(node: Any, limit: int, read: list[bytes], written: list[bytes]) -> bytes:
    parts = [
        node["node"][:-1], b',"node_version":', node["node_version"], b',"actions":',
        array((node["actions"] or [])[:limit]), b',"messages_in":', array(read), b',"messages_out":', array(written),
        b"}",
    ]  # fmt: skip
    return b"".join(parts)


async def metrics(reader: Reader, tenant_id: str, invocation_id: str) -> Answer:
    """Duration, cost, bottleneck, and what each node and tool took and failed at. Raises `InvocationNotFound`."""
    row = await reader.row(_SQL["metrics"], tenant_id=tenant_id, invocation_id=invocation_id, limit=METRICS_MAX)
    if row is None:
        raise InvocationNotFound("There is no such invocation.", id=invocation_id)
    return Answer(200, row["body"])
