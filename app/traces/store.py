"""A trace in SQL: three statements on one snapshot; PostgreSQL writes the JSON and the parts are joined as bytes."""

from __future__ import annotations

import json
from typing import Any

from app.db.database import Answer, Reader
from app.db.page import Listing, Sort
from app.db.shape import Shape, array, instant, stored_bytes, verbatim
from app.db.sql import load
from app.invocations.errors import InvocationNotFound
from app.invocations.store import INVOCATION
from app.messages.store import MESSAGE, MESSAGES
from app.nodes.store import ACTION, NODE, NODES
from app.versions.node_store import NODE_VERSION
from app.versions.store import VERSION
from app.workflows.store import FIELDS as WORKFLOW_FIELDS

# Without what is counted from its versions: a workflow may have very many.
WORKFLOW = Shape("id", *WORKFLOW_FIELDS, instant("created_at"), instant("updated_at"))
BYTES_MAX = 64 * 1024 * 1024
METRICS_MAX = 1000


# An action states its failure in one of these ways.
_FAILED_CALL = "(a.error IS NOT NULL OR a.exit_code <> 0 OR a.status IN ('failed', 'error'))"


def _seconds(alias: str) -> str:
    return f"EXTRACT(epoch FROM {alias}.ended_at - {alias}.started_at)"


_SQL = load(
    __file__,
    invocation=INVOCATION.json("i", INVOCATION.verbatim),
    version=VERSION.json("v", VERSION.verbatim),
    workflow=WORKFLOW.json("w"),
    node=NODE.json("n", NODE.verbatim),
    node_version=NODE_VERSION.json("v"),
    action=ACTION.json("a", ACTION.verbatim),
    message=MESSAGE.json("m", MESSAGE.verbatim),
    failed_call=_FAILED_CALL,
    output_bytes=stored_bytes("output"),
    action_bytes=f"{stored_bytes('a.input')} + {stored_bytes('a.output')}",
    payload_bytes=stored_bytes("payload"),
    seconds_of_node=_seconds("n"),
    seconds_of_invocation=_seconds("i"),
)


# What went wrong, of four kinds; ids are unique within a kind and the node invocation that they belong to.
_FAILURES = f"""(
  SELECT i.tenant_id, i.id AS invocation_id, 'invocation' AS kind, i.id, NULL AS node_invocation_id, NULL AS node_id,
    COALESCE(i.ended_at, i.updated_at) AS failed_at, i.status, i.error, NULL AS tool, CAST(NULL AS bigint) AS exit_code,
    CAST(NULL AS json) AS payload
  FROM invocations AS i WHERE i.status = 'failed' OR i.error IS NOT NULL
  UNION ALL
  SELECT n.tenant_id, n.invocation_id, 'node', n.id, n.id, n.node_id, COALESCE(n.ended_at, n.started_at), n.status,
    n.error, NULL, NULL, NULL
  FROM node_invocations AS n WHERE n.status = 'failed' OR n.error IS NOT NULL
  UNION ALL
  SELECT a.tenant_id, a.invocation_id, 'action', a.id, a.node_invocation_id, n.node_id,
    COALESCE(a.started_at, a.created_at), a.status, a.error, a.tool, a.exit_code, NULL
  FROM actions AS a JOIN node_invocations AS n
    ON n.tenant_id = a.tenant_id AND n.invocation_id = a.invocation_id AND n.id = a.node_invocation_id
  WHERE {_FAILED_CALL}
  UNION ALL
  SELECT m.tenant_id, m.invocation_id, 'message', m.id, m.origin_node_invocation_id, m.from_node_id, m.created_at,
    NULL, NULL, NULL, NULL, m.payload
  FROM messages AS m WHERE m.role = 'error'
) AS t"""
FAILURES = Listing(
    "failures",
    _FAILURES,
    Shape(
        "kind",
        "id",
        "node_invocation_id",
        "node_id",
        instant("failed_at"),
        "status",
        "error",
        "tool",
        "exit_code",
        verbatim("payload"),
    ),
    sorts={"failed_at": Sort("{t}.failed_at", "timestamptz")},
    default=("failed_at", "asc"),
    filters={"invocation_id": "t.invocation_id = :invocation_id", "kind": "t.kind = ANY (:kind)"},
    ids=('t.kind COLLATE "C"', "COALESCE(t.node_invocation_id, '') COLLATE \"C\"", "t.id"),
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
        b'{"invocation":', head["invocation"], b',"version":', head["version"], b',"workflow":', head["workflow"],
        b',"nodes":', array(shown), b',"messages":', array(message["body"] for message in messages),
        b',"more":', json.dumps(more).encode(), b"}",
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
