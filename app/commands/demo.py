"""`cairn demo`: real work that anyone can watch, kill and take up again."""

from __future__ import annotations

import os
import signal
import uuid
from types import TracebackType
from typing import Annotated, NoReturn, Self
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

from app.client import Cairn, ConflictError, UnavailableError, UnreachableError
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.pasting import curl_to_paste, to_paste
from app.demo.genetics import POPULATION_MAX, POPULATION_MIN, Ranked
from app.demo.objective import spelled
from app.demo.run import DemoRefused, Plan, start_or_take_up
from app.demo.search import Completed, search

SETTINGS = {"population": 20, "generations": 10, "seed": 8}
STOPPED_BY_HAND = 130

app = typer.Typer(
    no_args_is_help=True, help="Real work to watch, kill and take up again.", epilog="Example: cairn demo evolve"
)


@app.callback()
def _group() -> None:
    """Real work to watch, kill and take up again."""


@app.command(epilog="Example: cairn demo evolve --run demo --kill-after 90, then cairn demo evolve --run demo")
def evolve(
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Name a new run, or take this one up again.", show_default=False),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(min=POPULATION_MIN, max=POPULATION_MAX, help="How many in a generation; 20 unless said."),
    ] = None,
    generations: Annotated[int | None, typer.Option(min=1, max=1_000, help="How many of them; 10 unless said.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**53 - 1, help="The same seed gives the same search; 8 unless said.")
    ] = None,
    kill_after: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Die as by kill -9 after N evaluations.", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Search for a polynomial that goes through measured points, and keep the whole record in the service.

    Every version with its parents, every evaluation with its cost, node and messages, every generation and the search's
    own state go over HTTP. Kill it at any moment, even with kill -9, and start it with the same --run: it ends with the
    population that it would have had anyway.
    """
    run_id = run or f"demo-{uuid.uuid4().hex[:8]}"
    again = f"`{to_paste('demo', 'evolve', '--run', run_id, url=url, tenant=tenant)}` takes it up again."
    given = {"population": population, "generations": generations, "seed": seed}
    with connected(url, key, tenant) as cairn:
        try:
            plan = start_or_take_up(cairn, run_id, given, SETTINGS)
        except DemoRefused as refused:
            _end(str(refused))
        if plan.is_complete:
            typer.echo(f"Run {run_id} is complete; name another with --run.")
        else:
            typer.echo(f"Run {run_id}: {plan.generations} generations of {plan.population}, seed {plan.seed}.")
            typer.echo(f"Kill it whenever you like; {again}")
        try:
            with _Watching(plan, kill_after) as watching:
                population_at_last = search(cairn, plan, watching)
        except DemoRefused as refused:
            _end(str(refused))
        except ConflictError as error:
            if "current_status" not in error.facts:
                raise
            _end(f"Somebody ended the run, it is {error.facts['current_status']}: the search stops.")
        except (UnreachableError, UnavailableError):
            _end(f"No answer from {url} any more. Start it again with `make run` or `cairn dev`; then {again}")
        except KeyboardInterrupt:
            _interrupt(cairn, run_id)
            _end(f"Interrupted; {again}", STOPPED_BY_HAND)
    _tell_where_to_look(plan, population_at_last[0], url, key, tenant)


class _Watching:
    """A bar on stderr and a line on stdout for each generation; and the death that was asked for."""

    def __init__(self, plan: Plan, kill_after: int | None) -> None:
        columns = (TextColumn("evaluations"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("evaluations", total=plan.population * plan.generations)
        self._until_death = kill_after

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def found(self, evaluations: int) -> None:
        self._progress.advance(self._task, evaluations)

    def evaluated(self) -> None:
        self._progress.advance(self._task)
        if self._until_death is not None:
            self._until_death -= 1
            if self._until_death == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def completed(self, generation: Completed) -> None:
        taken_over = f"  {generation.taken_over} evaluations taken over" if generation.taken_over else ""
        typer.echo(
            f"generation {generation.number:>3}  best {generation.best.fitness:.4f}  average {generation.average:.4f}"
            f"  worst {generation.worst:.4f}  {generation.usd_cost:f} USD{taken_over}"
        )


def _end(sentence: str, status: int = 1) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(status)


def _interrupt(cairn: Cairn, run_id: str) -> None:
    """Say in the record that a person stopped it; where nobody answers, the record says that it is running."""
    try:
        cairn.evolution_runs.complete(run_id, "interrupted", notes="Stopped by hand.")
    except (UnreachableError, UnavailableError):
        typer.echo("The service does not answer, so the run was not marked as interrupted.", err=True)


def _tell_where_to_look(plan: Plan, best: Ranked, url: str, key: str | None, tenant: str | None) -> None:
    typer.echo(f"Best: y = {spelled(best.coefficients)}, fitness {best.fitness:.4f}, version {best.version_id}")
    unsaid = key is not None and key != os.environ.get("CAIRN_KEY")
    typer.echo("Look at it, with the key in CAIRN_KEY:" if unsaid else "Look at it:")
    typer.echo(f"  {to_paste('runs', 'progress', plan.run_id, url=url, tenant=tenant)}")
    typer.echo(f"  {to_paste('versions', 'tree', plan.run_id, url=url, tenant=tenant)}")
    picture = f"{url}/v1/evolution-runs/{quote(plan.run_id, safe='')}/progress"
    typer.echo(f"  {curl_to_paste(picture, 'progress.svg', accept='image/svg+xml', key=key, tenant=tenant)}")
