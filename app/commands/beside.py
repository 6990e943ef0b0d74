"""Which database the operator's commands work on: the one of the settings, or that of the Cairn running here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from app.commands.plainly import read_settings, refuse
from app.embedded import running_in
from app.settings import BlobSettings, NatsSettings, RedisSettings, Settings, WebhookSettings

Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Work on the servers of the `cairn dev` or `make run` that runs in this folder."
        " Default: CAIRN_DATABASE__URL; where that is not set, the Cairn that runs in ./var, if one does.",
        show_default=False,
    ),
]

# The key that `cairn dev` keeps in its folder, and where it lets webhooks go: to what a person tries them with.
WEBHOOK_KEY_FILE = "webhook-key"
LOOPBACK = "127.0.0.0/8,::1"
# Where `cairn dev` keeps objects, within its folder.
OBJECTS_FOLDER = "artifacts"


def operator_settings(folder: Path | None) -> Settings:
    """The settings; those of the Cairn that runs in the folder where one is named, or where no database is.

    One line on stderr says so then. A command whose folder has none running ends plainly.
    """
    settings = read_settings()
    if folder is None and settings.database.model_fields_set & {"url", "direct_url"}:
        return settings
    place = folder or settings.var_folder
    found = running_in(place)
    if found is None or found.postgres_url is None:
        if folder is not None:
            refuse(f"No Cairn runs in {folder}; start it with cairn dev --folder {folder}, or set CAIRN_DATABASE__URL.")
        return settings
    typer.echo(f"On the database of the Cairn that runs in {place} (process {found.pid}).", err=True)
    at_hand = {"url": SecretStr(found.postgres_url), "direct_url": None}
    changed: dict[str, object] = {
        "var_folder": place,
        "database": settings.database.model_copy(update=at_hand),
        "webhooks": _webhooks(settings.webhooks, place),
        "blobs": _blobs(settings.blobs, place),
    }
    if found.redis_url is not None:
        changed["redis"] = RedisSettings(url=SecretStr(found.redis_url))
    if found.nats_url is not None:
        changed["nats"] = NatsSettings(url=SecretStr(found.nats_url))
    return settings.model_copy(update=changed)


def _webhooks(settings: WebhookSettings, folder: Path) -> WebhookSettings:
    """What holds for webhooks where `cairn dev` runs in the folder: its own, unless something else is set."""
    file = folder / WEBHOOK_KEY_FILE
    changed: dict[str, object] = {}
    if settings.encryption_keys is None and file.exists():
        changed["encryption_keys"] = SecretStr(file.read_text().strip())
    if not settings.allow_private:
        changed["allow_private"] = LOOPBACK
    return settings.model_copy(update=changed)


def _blobs(settings: BlobSettings, folder: Path) -> BlobSettings:
    """Where objects lie where `cairn dev` runs in the folder: in it, unless another place is set."""
    if names_a_place(settings):
        return settings
    return settings.model_copy(update={"folder": folder / OBJECTS_FOLDER})


def names_a_place(settings: BlobSettings) -> bool:
    """Whether somebody has said where objects are to lie."""
    return bool(settings.model_fields_set & {"folder", "bucket"})
