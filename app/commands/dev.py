"""`cairn dev`: everything on this machine with one command: servers, schema, a key, the API."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn
from rich.console import Console

from app.commands import operating
from app.commands.beside import LOOPBACK, OBJECTS_FOLDER, WEBHOOK_KEY_FILE, names_a_place
from app.commands.listening import PatientServer, base_url, bound_socket, check_door, check_room, server_config
from app.commands.open_files import raise_open_files
from app.commands.plainly import plainly, read_settings, refuse, run
from app.embedded import Servers, running_in, start_servers
from app.logs import configure_logs
from app.settings import DatabaseSettings, Settings
from app.tenants import store
from app.tenants.keys import DEFAULT_TENANT

KEY_FILE = "development-key"
TICKS_BETWEEN_LOOKS = 10
# A person who pressed Ctrl-C waits for what is running, but not for long.
GRACE_SECONDS = 5


def dev(
    folder: Annotated[
        Path | None, typer.Option(help="Where the data is kept. Default: ./var.", show_default=False)
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 8000.", show_default=False)] = None,
    host: Annotated[str | None, typer.Option(help="Default: 127.0.0.1.", show_default=False)] = None,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Keep nothing; start empty.")] = False,
) -> None:
    """Start PostgreSQL, NATS and Valkey, bring the schema up to date, and serve the API until Ctrl-C.

    Needs nothing installed besides Cairn. The data and the development key are found again by the next start.
    """
    # SIGINT too: a shell that starts it in the background has it ignored otherwise.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    os.environ.setdefault("CAIRN_LOG__FORMAT", "console")
    os.environ.setdefault("CAIRN_HTTP__GRACE_SECONDS", str(GRACE_SECONDS))
    settings = read_settings(http__host=host, http__port=port, http__workers=1, background__enabled=True)
    configure_logs(settings.log, quiet_servers=True)
    raise_open_files()
    check_door(settings)
    check_room(settings)
    console = Console(stderr=True, highlight=False)
    if not ephemeral:
        _refuse_second(folder or settings.var_folder)
    ended = None
    with plainly():
        try:
            opened = bound_socket(settings)
            with console.status("Starting PostgreSQL, NATS and Valkey …"):
                servers = start_servers(
                    folder or settings.var_folder, ephemeral=ephemeral, report=lambda line: console.print(f"  {line}")
                )
            with servers:
                ended = _serve(servers, opened, console)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=True)
    if ended is not None:
        refuse(f"{ended} ended by itself, so everything was stopped; start again, its log is in the data folder.")


def _refuse_second(folder: Path) -> None:
    """End the command where a Cairn runs on the folder's data already; its port would only be told as taken."""
    found = running_in(folder)
    if found is not None:
        where = f"at {found.url}" if found.url else "and is not ready yet"
        refuse(
            f"Cairn already runs here, {where} (process {found.pid}, data in {folder}). Use that one, or start another"
            ' beside it: make run ARGS="--ephemeral --port 8001", or --folder OTHER in place of --ephemeral.'
        )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _serve(servers: Servers, opened: socket.socket, console: Console) -> str | None:
    """Serve until Ctrl-C; the name of a server that ended by itself meanwhile."""
    settings = read_settings(
        database__url=servers.postgres_url, redis__url=servers.redis_url, nats__url=servers.nats_url
    )
    if settings.webhooks.encryption_keys is None:
        settings = read_settings(webhooks__encryption_keys=webhook_key(servers.folder))
    if not settings.webhooks.allow_private:
        settings = read_settings(webhooks__allow_private=LOOPBACK)
    if not names_a_place(settings.blobs):
        settings = read_settings(blobs__folder=servers.folder / OBJECTS_FOLDER)
    with console.status("Bringing the schema up to date …"):
        if run(operating.revision(settings.database)).fault:
            from app.db.migrate import migrate  # noqa: PLC0415 - Alembic takes a while, and mostly nothing is to do

            migrate(settings.database, report=lambda line: console.print(f"  {line}"))
        key = run(development_key(servers.folder, settings.database))
    url = base_url(opened)

    def on_ready() -> None:
        servers.announce(url)
        typer.echo(_welcome(url, key, settings))

    server = _Server(server_config(settings), servers, on_ready)
    server.run(sockets=[opened])
    return server.ended


class _Server(PatientServer):
    """A server that says when it is ready and stops when one of its own servers ends."""

    def __init__(self, config: uvicorn.Config, servers: Servers, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.embedded, self.on_ready = servers, on_ready
        self.ended: str | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            self.on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Look, once a second, whether the servers still run."""
        if counter % TICKS_BETWEEN_LOOKS == 0 and not self.should_exit:
            self.ended = self.embedded.ended_part()
        return await super().on_tick(counter) or self.ended is not None


async def development_key(folder: Path, settings: DatabaseSettings) -> str:
    """The development key of a data folder: the one kept there, or a new one where that no longer opens anything."""
    file = folder / KEY_FILE
    async with operating.operating(settings) as database:
        await store.ensure(database.once(""), DEFAULT_TENANT, "Default")
        kept = file.read_text().strip() if file.exists() else ""
        if kept and await operating.key_is_usable(database, DEFAULT_TENANT, kept):
            return kept
        key, _ = await operating.make_key(database, DEFAULT_TENANT, "development", list(operating.EVERY_SCOPE))
    _keep(file, key)
    return key


def webhook_key(folder: Path) -> str:
    """The key that seals the secrets of webhooks in a data folder: made once, kept there."""
    file = folder / WEBHOOK_KEY_FILE
    if not file.exists():
        from app.webhooks.sealing import new_key  # noqa: PLC0415 - cryptography, which later starts need not load here

        _keep(file, new_key())
    return file.read_text().strip()


def _keep(file: Path, key: str) -> None:
    """Write a key where only its owner reads it; a crash leaves either none or all of it."""
    unfinished = file.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        written.write(key + "\n")
    unfinished.replace(file)


def _welcome(url: str, key: str, settings: Settings) -> str:
    private = settings.webhooks.allow_private
    shown = "" if settings.auth.mode == "off" else f"  -H 'Authorization: Bearer {key}' \\\n"
    return f"""
Cairn is ready at {url}

  Documentation    {url}/docs
  Development key  {key}
  Webhooks         may reach {private.replace(",", ", ")}{" (this machine)" if private == LOOPBACK else ""}

A first request to paste:

curl -fsS -w '\\n' -X PUT {url}/v1/workflows/first \\
{shown}  -H 'Content-Type: application/json' \\
  -d '{{"name": "My first workflow"}}'

Ctrl-C stops everything."""
