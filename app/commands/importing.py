"""`cairn import`: brings records made elsewhere into the service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

from app.client import Cairn
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.lucky import lucky
from app.commands.trajectory import Step, Trajectory, UnreadableTrajectoryError, read_trajectory

MESSAGES_PER_CALL = 100

app = typer.Typer(
    no_args_is_help=True,
    help="Bring records made elsewhere into the service.",
    epilog="Example: cairn import trajectory runs/*.traj, or cairn import lucky dump/ --rehearse",
)


@app.callback()
def _group() -> None:
    """Bring records made elsewhere into the service."""


app.command(epilog="Example: cairn import lucky dump/ --tenant acme --rehearse")(lucky)


@app.command(epilog="Example: cairn import trajectory runs/*.traj")
def trajectory(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="SWE-agent .traj files.", show_default=False)],
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Import SWE-agent trajectories: each as a workflow, a version, an invocation, its steps and messages.

    Running it again changes nothing. Every payload is the exact text of the file; times that the file does not state
    are the service's own.
    """
    try:
        read = [(path, read_trajectory(path)) for path in files]
    except UnreadableTrajectoryError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        typer.echo(
            f"{error.filename} cannot be read: {why}; name the SWE-agent .traj files to import, as in runs/*.traj.",
            err=True,
        )
        raise typer.Exit(2) from error
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
    with (
        connected(url, key, tenant) as cairn,
        Progress(*columns, console=Console(stderr=True)) as progress,
    ):
        for path, found in read:
            task = progress.add_task(path.name, total=len(found.steps) + len(found.messages))
            is_new = store_trajectory(cairn, found, partial(progress.advance, task))
            typer.echo(_report(path, found, is_new))


def store_trajectory(cairn: Cairn, found: Trajectory, advance: Callable[[int], None]) -> bool:
    """Record a trajectory, all of it or what an earlier, broken import still lacks. Returns whether it was new."""
    cairn.versions.create(
        found.workflow_id,
        id=found.version_id,
        dsl=found.dsl,
        operation="init",
        workflow={"name": f"SWE-agent trajectory {found.sha256[:12]}"},
        nodes=found.nodes,
    )
    made = cairn.invocations.create(
        id=found.invocation_id, version_id=found.version_id, input=found.input, extras=found.extras
    )
    for step in found.steps:
        _store_step(cairn, found.invocation_id, step)
        advance(1)
    for at in range(0, len(found.messages), MESSAGES_PER_CALL):
        some = found.messages[at : at + MESSAGES_PER_CALL]
        cairn.messages.record_many(found.invocation_id, some)
        advance(len(some))
    cairn.invocations.end(found.invocation_id, status=found.status, output=found.output, usd_cost=found.usd_cost)
    return made.reply is not None and made.reply.status == 201


def _store_step(cairn: Cairn, invocation_id: str, step: Step) -> None:
    cairn.node_invocations.start(
        invocation_id, id=step.id, node_id=step.node_id, status="completed", output=step.output, extras=step.extras
    )
    if step.action is not None:
        cairn.node_invocations.record_action(invocation_id, step.id, **step.action)


def _report(path: Path, found: Trajectory, is_new: bool) -> str:
    counts = f"{len(found.steps)} steps, {len(found.messages)} messages"
    left_out = f"; left out: {', '.join(found.left_out)}" if found.left_out else ""
    return f"{found.invocation_id}  {path.name}: {counts}, {'imported' if is_new else 'was there already'}{left_out}"
