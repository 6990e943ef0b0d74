"""The run that a search belongs to: started, or taken up again with the settings it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.client import Cairn, NotFoundError

KIND = "cairn-demo"
# What the metadata of a demonstration's workflow holds, so that it is told from other people's.
MARK = {"made_by": KIND}
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
    is_complete: bool = False
    """Whether the search is over: all of it stands in the record."""


def generation_id(run_id: str, number: int) -> str:
    """The id of a generation of a run."""
    return f"{run_id}.{number}"


def start_or_take_up(
    cairn: Cairn, run_id: str, given: Mapping[str, int | None], otherwise: Mapping[str, int]
) -> Plan:  # fmt: skip
    """Start the run with `given` settings, `otherwise` where one is None; or take it up if it is there.

    A run that was interrupted or failed is reopened. Raises `DemoRefused` where the run, or the workflow of that name,
    is not a demonstration's, and where the run was started with other settings than given, or was cancelled.
    """
    _refuse_another_s_workflow(cairn, run_id)
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
    settings = run.config
    return Plan(
        run_id, settings["population"], settings["generations"], settings["seed"], run.status == "completed"
    )  # fmt: skip


def _refuse_another_s_workflow(cairn: Cairn, run_id: str) -> None:
    """The search's versions go into the workflow of the run's name: that must not be somebody's own."""
    try:
        workflow = cairn.workflows.get(run_id)
    except NotFoundError:
        return
    if not MARK.items() <= workflow.metadata.items():
        raise DemoRefused(f"{run_id} is a workflow that the demonstration did not make; give --run another name.")
