"""The sample pictures of docs/pictures, from invented searches that are the same every time: `make pictures`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from random import Random

from app.pictures import genealogy, progress
from app.pictures.genealogy import Genealogy, Node
from app.pictures.progress import Generation, Progress

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def search(generations: int, population: int, seed: int = 1) -> Genealogy:
    """The genealogy of an evolution run: each generation is bred from the better half of the one before."""
    random = Random(seed)
    nodes: list[Node] = []
    edges: list[tuple[str, str]] = []
    fitness: dict[str, float] = {}
    parents: list[str] = []
    for number in range(generations):
        born = []
        for _ in range(population):
            chance = random.random() if number else 0.0
            if chance < 0.08:
                kind, line = "immigrant" if number else "init", []
            elif chance < 0.55:
                kind, line = "mutation", [random.choice(parents)]
            else:
                kind, line = "crossover", random.sample(parents, 2)
            name = hashlib.sha256(f"{seed}/{len(nodes)}".encode()).hexdigest()
            base = max((fitness[parent] for parent in line), default=0.2)
            fitness[name] = min(1.0, base + random.gauss(0.01, 0.06) * (1.2 - base))
            nodes.append(Node(name, kind, number, f"fitness {fitness[name]:.3f}"))
            edges += [(parent, name) for parent in line]
            born.append(name)
        parents = sorted(born, key=lambda name: -fitness[name])[: max(2, population // 2)]
    best = max(fitness, key=lambda name: fitness[name])
    return Genealogy("Graph of evolution run toy-search", nodes, edges, "generation", best_id=best)


def five() -> Genealogy:
    """A workflow that a person changed a few times."""
    nodes = [
        Node("triage-1", "init", note="The first draft."),
        Node("triage-2-ask-back", "mutation", note="Let the planner ask back."),
        Node("triage-2-short", "mutation", note="Shorter prompts."),
        Node("triage-3", "crossover", note="Both of them."),
        Node("from-the-library", "immigrant"),
    ]
    edges = [
        ("triage-1", "triage-2-ask-back"),
        ("triage-1", "triage-2-short"),
        ("triage-2-ask-back", "triage-3"),
        ("triage-2-short", "triage-3"),
    ]
    return Genealogy("Genealogy of workflow triage", nodes, edges)


def run(generations: int, seed: int = 7, unknown: frozenset[int] = frozenset()) -> Progress:
    """The progress of an evolution run, nothing being known of some generations."""
    random = Random(seed)
    known: list[Generation] = []
    best = 0.2
    for number in range(generations):
        best += max(0.0, random.gauss(0.02, 0.03)) * (1 - best)
        average = best - 0.12 - abs(random.gauss(0, 0.02))
        worst = average - 0.15 - abs(random.gauss(0, 0.04))
        if number in unknown:
            known.append(Generation(number))
        else:
            cost = 0.4 + 0.3 * random.random()
            known.append(Generation(number, best, average, worst, min(1.0, best * 0.95), cost))
    return Progress("Progress of evolution run toy-search", known)


SAMPLES: dict[str, Callable[[], str]] = {
    "genealogy-5.svg": lambda: genealogy.draw(five()),
    "graph-50.svg": lambda: genealogy.draw(search(10, 5)),
    "graph-500.svg": lambda: genealogy.draw(search(25, 20)),
    "progress-20.svg": lambda: progress.draw(run(20, unknown=frozenset({7, 8}))),
    "progress-200.svg": lambda: progress.draw(run(200)),
}


def main() -> None:
    """Write every sample to docs/pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in SAMPLES.items():
        (FOLDER / name).write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
