"""`cairn doctor`: looks at every part and says what is wrong and what to do."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from app.blobs.blobs import Blobs
from app.bus.standing import Standing
from app.bus.work import Streams
from app.commands.beside import Folder, operator_settings
from app.commands.listening import is_loopback
from app.commands.plainly import run
from app.db.probe import NO_URL
from app.db.revision import revision_of
from app.errors import Unavailable
from app.http.parts import Part
from app.settings import BlobSettings, DatabaseSettings, Settings, WebhookSettings

LOOK_SECONDS = 5.0
FREE_BYTES_MIN = 1024**3
POSTGRES_MIN = 18
# So many webhooks are looked at.
SECRETS_MAX = 10_000
STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}
TIME_OUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@dataclass(frozen=True)
class Finding:
    """What was seen of a part: `ok`, `note` (worth knowing) or `wrong` (with what to do)."""

    part: str
    verdict: str
    detail: str


def doctor(folder: Folder = None) -> None:
    """Check settings, PostgreSQL, Redis, NATS, where artifacts lie, the disk and the port. Status 1 if one is wrong."""
    found = run(_examine(operator_settings(folder)))
    table = Table("part", "", "what was found", box=None)
    for finding in found:
        style = STYLES[finding.verdict]
        table.add_row(finding.part, f"[{style}]{finding.verdict}[/]", finding.detail, style=None)
    Console(width=None if Console().is_terminal else 160).print(table)
    if any(finding.verdict == "wrong" for finding in found):
        raise typer.Exit(1)


async def _examine(settings: Settings) -> list[Finding]:
    found = [_settings(settings)]
    found += [finding async for finding in _postgres(settings.database, settings.webhooks)]
    from app.http.metrics import Metrics  # noqa: PLC0415 - as the next
    from app.main import blobs_of, cache_of, hints_of, parts_of, streams_of  # noqa: PLC0415 - the whole application, which others do not need

    metrics = Metrics()
    streams = streams_of(settings, metrics)
    cache, blobs = cache_of(settings, metrics), blobs_of(settings)
    others = parts_of(settings, hints_of(settings, metrics), streams, cache, blobs).others
    found += [await _part("Redis", others["redis"]), await _part("NATS", others["nats"])]
    if others["nats"] is not None and found[-1].verdict == "ok":
        found += await _streams(streams)
    found += [await _objects(settings.blobs, blobs), _webhooks(settings.webhooks), _disk(settings.var_folder)]
    return [*found, _port(settings)]


def _settings(settings: Settings) -> Finding:
    auth = settings.auth
    if auth.mode == "off" and not is_loopback(settings.http.host) and not auth.allow_off_anywhere:
        return Finding("settings", "wrong", "CAIRN_AUTH__MODE=off on an address that others reach; use keys.")
    if auth.mode == "off":
        return Finding("settings", "note", "CAIRN_AUTH__MODE=off: every caller is the operator.")
    if auth.admin_key is None:
        return Finding("settings", "ok", "No CAIRN_AUTH__ADMIN_KEY: keys come from `cairn keys create`.")
    if len(auth.admin_key.get_secret_value()) < 24:
        return Finding("settings", "wrong", "CAIRN_AUTH__ADMIN_KEY is short; use 24 characters or more.")
    return Finding("settings", "ok", "They can be read.")


def _webhooks(settings: WebhookSettings) -> Finding:
    if settings.encryption_keys is None:
        detail = "No CAIRN_WEBHOOKS__ENCRYPTION_KEYS, so none can be made: `cairn webhooks new-key` prints a key."
        return Finding("webhooks", "note", detail)
    if settings.allow_private:
        return Finding("webhooks", "note", f"CAIRN_WEBHOOKS__ALLOW_PRIVATE lets them reach {settings.allow_private}.")
    return Finding("webhooks", "ok", "Their secrets are sealed, and they reach public addresses alone.")


async def _postgres(settings: DatabaseSettings, webhooks: WebhookSettings) -> AsyncIterator[Finding]:
    try:
        connection = await asyncpg.connect(settings.driver_url, timeout=LOOK_SECONDS, statement_cache_size=0)
    except ValueError:
        yield Finding("PostgreSQL", "wrong", NO_URL)
        return
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        yield Finding(
            "PostgreSQL",
            "wrong",
            f"It does not answer ({_brief(error)}); start it, or correct CAIRN_DATABASE__URL."
            " (Unset, and with `make run` or `cairn dev` running in this folder, theirs is looked at.)",
        )
        return
    try:
        yield _version(connection)
        yield await _schema(connection)
        yield await _pgvector(connection)
        yield await _indexes(connection)
        yield await _time_outs(connection, settings)
        yield await _connections(connection, settings)
        yield await _sealed(connection, webhooks)
    finally:
        await connection.close(timeout=LOOK_SECONDS)


def _brief(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:120]}" if said else type(error).__name__


def _version(connection: asyncpg.Connection) -> Finding:
    version = connection.get_server_version()
    told = f"{version.major}.{version.minor}"
    if version.major < POSTGRES_MIN:
        return Finding("PostgreSQL", "wrong", f"It is {told}; Cairn needs {POSTGRES_MIN} or newer.")
    return Finding("PostgreSQL", "ok", f"{told} answers.")


async def _schema(connection: asyncpg.Connection) -> Finding:
    revision = await revision_of(connection)
    if revision.fault:
        return Finding("schema", "wrong", revision.fault)
    return Finding("schema", "ok", f"It is at {revision.current}, as needed.")


async def _pgvector(connection: asyncpg.Connection) -> Finding:
    row = await connection.fetchrow(
        "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = 'vector'"
    )
    if row is None:
        return Finding("pgvector", "wrong", "The server does not have it; install the package postgresql-18-pgvector.")
    if row["installed_version"] is None:
        return Finding("pgvector", "ok", f"{row['default_version']} is there to be created by a migration.")
    return Finding("pgvector", "ok", f"{row['installed_version']} is created.")


async def _indexes(connection: asyncpg.Connection) -> Finding:
    from app.db.migrate import BUILT_BY_THE_SERVICE  # noqa: PLC0415 - Alembic takes a while

    rows = await connection.fetch(
        "SELECT c.oid::regclass::text AS name, c.relname ~ $1 AS of_memory"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid ORDER BY 2, 1 LIMIT 20",
        BUILT_BY_THE_SERVICE,
    )
    if left := [row["name"] for row in rows if not row["of_memory"]]:
        return Finding("indexes", "wrong", f"An interrupted build left {', '.join(left)} invalid; run `cairn migrate`.")
    if rows:
        listed = ", ".join(row["name"] for row in rows)
        return Finding(
            "indexes", "note", f"{listed}: not built to its end yet. A `cairn worker`, or an API that runs the"
            " background work, builds it; searches compare every vector until then.",
        )  # fmt: skip
    return Finding("indexes", "ok", "All are valid.")


async def _sealed(connection: asyncpg.Connection, settings: WebhookSettings) -> Finding:
    """Whether the keys open what the webhooks that are sent to have sealed."""
    from app.webhooks.sealing import EncryptionKeyMissing, Seal  # noqa: PLC0415 - cryptography, of no other command

    if await connection.fetchval("SELECT to_regclass('webhooks')") is None:
        return Finding("sealing", "ok", "There are no webhooks.")
    rows = await connection.fetch(
        "SELECT secret, headers FROM webhooks WHERE enabled ORDER BY tenant_id, id LIMIT $1", SECRETS_MAX
    )
    seal = Seal(settings.encryption_keys.get_secret_value() if settings.encryption_keys else None)
    lost = 0
    for row in rows:
        try:
            for sealed in (row["secret"], row["headers"]):
                if sealed is not None:
                    seal.open(sealed)
        except EncryptionKeyMissing:
            lost += 1
    if lost:
        return Finding(
            "sealing", "wrong", f"No key in CAIRN_WEBHOOKS__ENCRYPTION_KEYS opens what {lost} of {len(rows)} webhooks"
            " have sealed, so nothing is sent to them: add the key that was used, after the others.",
        )  # fmt: skip
    return Finding("sealing", "ok", f"The keys open what {len(rows)} webhooks have sealed.")


async def _time_outs(connection: asyncpg.Connection, settings: DatabaseSettings) -> Finding:
    """A pooler refuses time-outs as start-up parameters; then the role must bring them."""
    if settings.session_settings:
        return Finding("time-outs", "ok", "Each session sets its own.")
    missing = []
    for name in TIME_OUTS:
        if await connection.fetchval("SELECT setting FROM pg_settings WHERE name = $1", name) == "0":
            missing.append(name)
    if missing:
        role = await connection.fetchval("SELECT current_user")
        return Finding(
            "time-outs", "wrong", f"The role {role} has no {', '.join(missing)}; set it, as in"
            f" ALTER ROLE {role} SET {missing[0]} = '30s'.",
        )  # fmt: skip
    return Finding("time-outs", "ok", "The role brings them.")


async def _connections(connection: asyncpg.Connection, settings: DatabaseSettings) -> Finding:
    most = int(await connection.fetchval("SELECT setting FROM pg_settings WHERE name = 'max_connections'"))
    if settings.pool_max >= most:
        return Finding(
            "connections", "wrong", f"Each process may open {settings.pool_max}, the server takes {most} in all;"
            " lower CAIRN_DATABASE__POOL_MAX.",
        )  # fmt: skip
    return Finding(
        "connections", "ok", f"The server takes {most}, each process opens up to {settings.pool_max} and one more."
    )


async def _part(name: str, part: Part | None) -> Finding:
    if part is None:
        return Finding(name, "ok", f"Not configured (CAIRN_{name.upper()}__URL); none is needed.")
    try:
        return Finding(name, "ok", f"{await part.check(LOOK_SECONDS)} answers.")
    except Unavailable as refusal:
        advice = f" Start it, or correct CAIRN_{name.upper()}__URL." if "not answer" in refusal.detail else ""
        return Finding(name, "wrong", refusal.detail + advice)
    finally:
        await part.close()


async def _objects(settings: BlobSettings, blobs: Blobs) -> Finding:
    place = f"the bucket {settings.bucket}" if settings.bucket else f"the folder {settings.folder.absolute()}"
    try:
        await blobs.check(LOOK_SECONDS)
    except Unavailable as refusal:
        return Finding("artifacts", "wrong", f"They lie in {place}. {refusal.detail}")
    if settings.bucket:
        return Finding("artifacts", "ok", f"They lie in {place}, which answers.")
    room = _disk(settings.folder)
    return Finding("artifacts", room.verdict, f"They lie in {place}. {room.detail}")


async def _streams(streams: Streams) -> list[Finding]:
    """Nothing is declared here: a process that serves does that, whenever it connects."""
    try:
        return [_stream(one) for one in await streams.look(LOOK_SECONDS)]
    except Unavailable as refusal:
        return [Finding("streams", "wrong", refusal.detail)]


def _stream(one: Standing) -> Finding:
    part = f"stream {one.stream}"
    if one.missing:
        return Finding(part, "note", f"{one.name} is not there; the API or a worker makes it when it starts.")
    if one.stalled:
        return Finding(
            part, "wrong", f"{one.messages} messages wait and none was done for long; start a `cairn worker`, or an API"
            " that runs the background work.",
        )  # fmt: skip
    if one.faults:
        return Finding(
            part, "wrong", f"{one.name}: {'; '.join(one.faults)}. Start Cairn with these settings, or correct NATS."
        )
    consumer = one.consumer
    told = f"{one.messages} messages, {one.bytes} of {one.bytes_max} bytes, {one.replicas} replica(s)"
    if consumer is not None:
        told += f"; {consumer.pending} wait, {consumer.ack_pending} are out, {consumer.redelivered} of them again"
    return Finding(part, "ok", f"{told}.")


def _disk(folder: Path) -> Finding:
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding("disk", "wrong", f"{existing} is closed to this user; CAIRN_VAR_FOLDER names another folder.")
    free = shutil.disk_usage(existing).free
    told = f"{free / 1024**3:.1f} GiB are free at {existing}."
    return Finding("disk", "wrong" if free < FREE_BYTES_MIN else "ok", told)


def _port(settings: Settings) -> Finding:
    host, port = settings.http.host, settings.http.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Finding(
                "port", "note", f"{host}:{port} cannot be had now ({error.strerror}): Cairn serves there already, or"
                " another program does.",
            )  # fmt: skip
    return Finding("port", "ok", f"{host}:{port} is free.")
