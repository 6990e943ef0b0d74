"""The run that a search belongs to: started, or taken up again with the settings it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.client import Cairn, NotFoundError

KIND = "cairn-demo"
GOAL = "Find a polynomial that goes through the measured points."
TAKEN_UP = frozenset({"interrupted", "failed"})


class DemoRefused(Exception):
    """The demonstration cannot go on; the text says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """What is searched: everything that the search writes follows from it, but for the times."""

    run_id: str
    population: int
    generations: int
    seed: int


def generation_id(run_id: str, number: int) -> str:
    """The id of a generation of a run."""
    return f"{run_id}.{number}"


def start_or_take_up(
    cairn: Cairn, run_id: str, given: Mapping[str, int | None], otherwise: Mapping[str, int]
) -> Plan:  # fmt: skip
    """Start the run with `given` settings, `otherwise` where one is None; or take it up if it is there.

    A run that was interrupted or failed is reopened. Raises `DemoRefused` where the run is not a demonstration's, was
    started with other settings than given, or was cancelled.
    """
    try:
        run = cairn.evolution_runs.get(run_id)
    except NotFoundError:
        chosen = {name: otherwise[name] if given[name] is None else given[name] for name in otherwise}
        run = cairn.evolution_runs.create(
            id=run_id,
            goal_text=GOAL,
            config=chosen,
            evolution_type=KIND,
            generation={"id": generation_id(run_id, 0), "number": 0},
        )
    if run.evolution_type != KIND:
        raise DemoRefused(f"{run_id} is a run of something else; give --run another name.")
    for name, wanted in given.items():
        if wanted is not None and wanted != run.config[name]:
            raise DemoRefused(f"{run_id} was started with {name} {run.config[name]}; leave --{name} out to go on.")
    if run.status == "cancelled":
        raise DemoRefused(f"Somebody cancelled {run_id}; it goes on after POST /v1/evolution-runs/{run_id}/reopen.")
    if run.status in TAKEN_UP:
        cairn.evolution_runs.reopen(run_id)
    return Plan(run_id, run.config["population"], run.config["generations"], run.config["seed"])
