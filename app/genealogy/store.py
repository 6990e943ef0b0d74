"""Genealogy in SQL, beside its walks: two versions to compare, and the graph of a workflow."""

from __future__ import annotations

import json

from app.db.database import Answer, Reader
from app.db.shape import Shape, computed
from app.db.sql import load
from app.genealogy.difference import SIZE_MAX_BYTES, difference, too_large
from app.turns import Turns
from app.versions.errors import VersionNotFound
from app.versions.store import VERSION, VERSIONS, pruned
from app.workflows import store as workflows

# Each takes two seconds at most.
NODE = Shape(*VERSION.columns, computed("outside", "{t}.workflow_id <> :workflow_id"))

_SQL = load(__file__, node=NODE.json("v"))


async def graph(reader: Reader, tenant_id: str, workflow_id: str, limit: int) -> Answer:
    """The newest versions of a workflow with all their parents, as nodes and edges; one statement.

    `{"nodes": […], "edges": [{"from", "to", "kind"}], "more": {"versions"}}`, newest first, parents that are not among
    them last. Raises `WorkflowNotFound`.
    """
    row = await reader.row(_SQL["graph"], tenant_id=tenant_id, workflow_id=workflow_id, limit=limit)
    if row is None:
        await workflows.get(reader, tenant_id, workflow_id)
        return Answer(200, b'{"nodes":[],"edges":[],"more":{"versions":null}}')
    cursor = VERSIONS.cursor_after(tenant_id, {"workflow_id": workflow_id}, row) if row["followed"] else None
    nodes, edges = (row[name].encode() if row[name] else b"" for name in ("nodes", "edges"))
    more = json.dumps({"versions": cursor}).encode()
    return Answer(200, b'{"nodes":[%b],"edges":[%b],"more":%b}' % (nodes, edges, more))


async def compared(reader: Reader, tenant_id: str, version_id: str, other_id: str, comparing: Turns) -> Answer:
    """What makes the DSL of a version that of another.

    Raises `VersionNotFound`, `VersionPruned`, `DifferenceTooLarge`, and `Unavailable` where many others wait.
    """
    arguments = {"version_id": version_id, "other_id": other_id, "size_max_bytes": SIZE_MAX_BYTES}
    rows = await reader.rows(_SQL["both"], tenant_id=tenant_id, **arguments)
    found = {row["id"]: row["dsl"] for row in rows}
    for one in (version_id, other_id):
        if one not in found:
            raise VersionNotFound("There is no such version.", id=one)
    for row in rows:
        if row["is_pruned"]:
            raise pruned(row["id"])
    old, new = found[version_id], found[other_id]
    if version_id == other_id:
        patch = b"[]"
    elif old is None or new is None:
        raise too_large()
    else:
        patch = await comparing.take(difference, old, new)
    ends = json.dumps(version_id).encode(), json.dumps(other_id).encode()
    return Answer(200, b'{"from":%b,"to":%b,"patch":%b}' % (*ends, patch))
