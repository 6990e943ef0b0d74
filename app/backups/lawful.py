"""Rows that work for all tenants goes by: they hold what the API would let through, or that work would fail for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.documents.schemas import CollectionRules
from app.maintenance.schemas import HEARTBEAT, NewSchedule
from app.webhooks.schemas import WebhookChange

Row = Mapping[str, Any]


def _collection(row: Row) -> None:
    CollectionRules.model_validate(_given(row, "secret_paths", "history"))


def _schedule(row: Row) -> None:
    given = _given(row, "thresholds", "every_seconds")
    if "thresholds" in given:
        given["thresholds"] = {name: msgspec.json.decode(value) for name, value in given["thresholds"].items()}
        if given["thresholds"].keys() != HEARTBEAT.keys():
            raise ValueError("not every threshold is there")
    NewSchedule.model_validate(given)


def _webhook(row: Row) -> None:
    WebhookChange.model_validate(_given(row, "url", "event_types", "include", "description"))


# By section; each raises ValueError.
LAWFUL: Mapping[str, Callable[[Row], None]] = {
    "cleanup_schedules": _schedule,
    "document_collections": _collection,
    "webhooks": _webhook,
}


def _given(row: Row, *names: str) -> dict[str, Any]:
    """What an older file does not have takes its default."""
    return {name: row[name] for name in names if name in row}
