"""A workflow's genealogy, as its JSON tells it, made ready to be drawn."""

from __future__ import annotations

import msgspec

from app.http.drawing import require_legible
from app.pictures import genealogy
from app.pictures.genealogy import NODES_MAX, Genealogy


class _Node(msgspec.Struct):
    id: str
    operation: str
    commit_message: str | None
    outside: bool


class _Edge(msgspec.Struct, rename={"parent": "from", "child": "to"}):
    parent: str
    child: str


class _More(msgspec.Struct):
    versions: str | None


class _Told(msgspec.Struct):
    nodes: list[_Node]
    edges: list[_Edge]
    more: _More


_read = msgspec.json.Decoder(_Told).decode


def told(workflow_id: str, body: bytes) -> Genealogy:
    """What an answer of `GET /v1/workflows/{id}/genealogy` says, the oldest versions first."""
    answer = _read(body)
    nodes = [
        genealogy.Node(
            node.id,
            node.operation,
            note="of another workflow" if node.outside else (node.commit_message or "").partition("\n")[0],
        )
        for node in reversed(answer.nodes)
    ]
    edges = sorted(((edge.parent, edge.child) for edge in answer.edges), key=lambda edge: edge[1])
    remark = "older versions are left out" if answer.more.versions is not None else ""
    return Genealogy(f"Genealogy of workflow {workflow_id}", nodes, edges, remark=remark)


def drawn(workflow_id: str, body: bytes) -> str:
    """The answer as SVG. Raises `PictureTooLarge`."""
    found = told(workflow_id, body)
    fewer = "Ask for fewer, such as limit=500 for the newest"
    require_legible(len(found.nodes), NODES_MAX, "versions", fewer)
    return genealogy.draw(found)
