"""`cairn serve`: the API against a given database, for deployments."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from contextlib import suppress
from types import FrameType
from typing import Annotated

import typer
import uvicorn
from uvicorn.supervisors import Multiprocess

from app.commands import operating
from app.commands.listening import PatientServer, base_url, bound_socket, check_door, check_room, server_config
from app.commands.open_files import raise_open_files
from app.commands.plainly import read_settings, run
from app.logs import configure_logs

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0: a free one.", show_default=False)] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=64, help="API processes.", show_default=False)] = None,
    background: Annotated[
        bool | None,
        typer.Option("--background/--no-background", help="Run the background jobs too.", show_default=False),
    ] = None,
) -> None:
    """Serve the API against the PostgreSQL of CAIRN_DATABASE__URL, until SIGTERM or Ctrl-C.

    Options left out come from the settings (see .env.example). It refuses to start on another schema than its own.
    """
    settings = read_settings(http__host=host, http__port=port, http__workers=workers, background__enabled=background)
    configure_logs(settings.log)
    raise_open_files()
    check_door(settings)
    check_room(settings)
    run(operating.require_schema(settings.database))
    opened = bound_socket(settings)
    typer.echo(f"Cairn serves {base_url(opened)} (documentation: {base_url(opened)}/docs).", err=True)
    count = settings.http.workers
    config = server_config(settings, workers=count)
    if count == 1:
        _serve_alone(PatientServer(config), opened)
    else:
        _serve_together(config, opened)


def _serve_alone(server: uvicorn.Server, opened: socket.socket) -> None:
    # uvicorn raises the signal again once it has stopped; by then this is an orderly end.
    signal.signal(signal.SIGTERM, _end)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[opened])


def _end(_number: int, _frame: FrameType | None) -> None:
    raise typer.Exit(0)


def _serve_together(config: uvicorn.Config, opened: socket.socket) -> None:
    """Several processes on one socket; what they measure is added up through files of a folder."""
    folder = None
    if METRICS_FOLDER not in os.environ:
        folder = os.environ[METRICS_FOLDER] = tempfile.mkdtemp(prefix="cairn-metrics-")
    try:
        Multiprocess(config, sockets=[opened]).run()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
