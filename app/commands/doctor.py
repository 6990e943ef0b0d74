"""`cairn doctor`: looks at every part and says what is wrong and what to do."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from app.blobs.blobs import Blobs
from app.bus.standing import Standing
from app.bus.work import Streams
from app.commands.beside import Folder, operator_settings
from app.commands.doctor_database import examined_database
from app.commands.finding import LOOK_SECONDS, Finding
from app.commands.listening import is_loopback
from app.commands.plainly import run
from app.errors import Unavailable
from app.http.parts import Part
from app.settings import BlobSettings, HttpSettings, Settings, WebhookSettings

FREE_BYTES_MIN = 1024**3
STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def doctor(folder: Folder = None) -> None:
    """Check settings, PostgreSQL, memory, Redis, NATS, where bytes lie, and the port. Status 1 if one is wrong."""
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
    found += [finding async for finding in examined_database(settings)]
    from app.http.metrics import Metrics  # noqa: PLC0415 - as the next
    from app.main import blobs_of, cache_of, hints_of, parts_of, streams_of  # noqa: PLC0415 - the whole application, which others do not need

    metrics = Metrics()
    streams = streams_of(settings, metrics)
    cache, blobs = cache_of(settings, metrics), blobs_of(settings)
    others = parts_of(settings, hints_of(settings, metrics), streams, cache, blobs).others
    found += [await _part("Redis", others["redis"]), await _part("NATS", others["nats"])]
    if others["nats"] is not None and found[-1].verdict == "ok":
        found += await _streams(streams)
    found += [await _objects(settings.blobs, blobs), _uploads(settings.http), _webhooks(settings.webhooks)]
    return [*found, _room("disk", settings.var_folder, "CAIRN_VAR_FOLDER"), _port(settings)]


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
    room = _room("artifacts", settings.folder, "CAIRN_BLOBS__FOLDER")
    return replace(room, detail=f"They lie in {place}. {room.detail}")


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


def _uploads(settings: HttpSettings) -> Finding:
    try:
        folder = settings.uploads_folder or Path(tempfile.gettempdir())
    except FileNotFoundError:
        return Finding("uploads", "wrong", "There is no temporary folder; CAIRN_HTTP__UPLOADS_FOLDER names another.")
    room = _room("uploads", folder, "CAIRN_HTTP__UPLOADS_FOLDER", settings.upload_bytes_max, "note")
    if room.verdict != "note":
        return room
    return replace(room, detail=f"{room.detail} One upload may have {settings.upload_bytes_max} bytes.")


def _room(part: str, folder: Path, setting: str, bytes_min: int = FREE_BYTES_MIN, scarce: str = "wrong") -> Finding:
    """Whether the folder, or what it will be made in, can be written and has so much room. It makes nothing."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(part, "wrong", f"{existing} is closed to this user; {setting} names another folder.")
    free = shutil.disk_usage(existing).free
    told = f"{free / 1024**3:.1f} GiB are free at {existing}."
    return Finding(part, scarce if free < bytes_min else "ok", told)


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
