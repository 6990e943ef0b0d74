"""A run's graph and its progress, as their JSON tells them, made ready to be drawn."""

from __future__ import annotations

import msgspec

from app.http.drawing import require_legible
from app.pictures import genealogy, progress
from app.pictures.genealogy import NODES_MAX, Genealogy
from app.pictures.progress import GENERATIONS_MAX, Generation, Progress, shown


class _Node(msgspec.Struct):
    kind: str
    id: str
    generation_number: int | None
    operation: str = ""
    invocation_count: int = 0
    best_fitness: float | None = None
    commit_message: str | None = None


class _Edge(msgspec.Struct, rename={"parent": "from", "child": "to"}):
    kind: str
    parent: str
    child: str


class _More(msgspec.Struct):
    versions: bool
    invocations: bool


class _Graph(msgspec.Struct):
    run_id: str
    nodes: list[_Node]
    edges: list[_Edge]
    more: _More


class _Step(msgspec.Struct):
    number: int
    best_fitness: float | None
    avg_fitness: float | None
    worst_fitness: float | None
    accuracy: float | None
    usd_cost: float | None


class _Progress(msgspec.Struct):
    run_id: str
    generations: list[_Step]
    next_number: int | None


_read_graph = msgspec.json.Decoder(_Graph).decode
_read_progress = msgspec.json.Decoder(_Progress).decode


def graph_told(body: bytes) -> Genealogy:
    """What an answer of `GET /v1/evolution-runs/{id}/graph` says of versions.

    Invocations are told with the version that they ran: their count and their best fitness.
    """
    answer = _read_graph(body)
    versions = [node for node in answer.nodes if node.kind == "version"]
    nodes = [genealogy.Node(node.id, node.operation, node.generation_number, _note(node)) for node in versions]
    edges = [(edge.parent, edge.child) for edge in answer.edges if edge.kind in ("parent1", "parent2")]
    best = max(
        (node for node in versions if node.best_fitness is not None),
        key=lambda node: node.best_fitness or 0.0,
        default=None,
    )
    invocations = len(answer.nodes) - len(versions)
    remarks = [f"{invocations:,} invocation{'' if invocations == 1 else 's'}, told with their versions"]
    if answer.more.versions or answer.more.invocations:
        remarks.append("later ones are left out")
    return Genealogy(
        f"Graph of evolution run {answer.run_id}",
        nodes,
        edges,
        "generation",
        best_id=None if best is None else best.id,
        remark=" · ".join(remarks),
    )


def graph(body: bytes) -> str:
    """The graph as SVG. Raises `PictureTooLarge`."""
    found = graph_told(body)
    fewer = "Choose generations with from_number and to_number"
    require_legible(len(found.nodes), NODES_MAX, "versions", fewer)
    return genealogy.draw(found)


def progress_told(body: bytes) -> Progress:
    """What an answer of `GET /v1/evolution-runs/{id}/progress` says."""
    answer = _read_progress(body)
    generations = [
        Generation(
            number=step.number,
            best=step.best_fitness,
            average=step.avg_fitness,
            worst=step.worst_fitness,
            accuracy=step.accuracy,
            cost=step.usd_cost,
        )
        for step in answer.generations
    ]
    left_out = "" if answer.next_number is None else f"generation {answer.next_number} and later are left out"
    return Progress(f"Progress of evolution run {answer.run_id}", generations, left_out)


def chart(body: bytes) -> str:
    """The progress as SVG. Raises `PictureTooLarge`."""
    found = progress_told(body)
    fewer = "Ask for fewer with limit and from_number"
    require_legible(len(found.generations), GENERATIONS_MAX, "generations", fewer)
    return progress.draw(found)


def _note(node: _Node) -> str:
    parts = [] if node.best_fitness is None else [f"fitness {shown(node.best_fitness)}"]
    if node.invocation_count > 1:
        parts.append(f"{node.invocation_count:,} runs")
    return ", ".join(parts) or (node.commit_message or "").partition("\n")[0]
