"""`cairn worker`: the background jobs in a process of their own."""

from __future__ import annotations

import asyncio
import signal

import typer
import uvloop

from app.commands.loading import loading
from app.commands.open_files import raise_open_files
from app.commands.plainly import plainly, read_settings
from app.logs import configure_logs
from app.settings import Settings


def worker() -> None:
    """Run the background jobs against the PostgreSQL of CAIRN_DATABASE__URL, until SIGTERM or Ctrl-C.

    `cairn serve` runs them too unless it is told `--no-background`. Several of both share the work.
    """
    settings = read_settings()
    configure_logs(settings.log)
    raise_open_files()
    with plainly():
        uvloop.run(_work(settings))


async def _work(settings: Settings) -> None:
    with loading():
        from app.main import work  # noqa: PLC0415 - the whole application, which the other commands do not need

    until = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, until.set)
    await work(settings, until, lambda: typer.echo("Cairn's background jobs are running.", err=True))
