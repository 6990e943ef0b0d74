"""What of a row of Lucky has to be worked out: scores, times that fit a status, what is kept beside."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from app.client.exact import members
from app.http.fields import JsonObject
from app.imports.fields import decoded, instant
from app.imports.mapping import Place
from app.mcp.errors import SecretRefused
from app.mcp.secrecy import refuse_secrets
from app.versions.identity import dsl_hash
from app.versions.node_store import config_hash

EMPTY = JsonObject(b"{}")
# Of the columns that were rounded, how far they may be from what they were rounded from.
_ROUNDING = 0.5


def finish_evaluator(place: Place) -> None:
    """It has not changed since it was made."""
    place.record["updated_at"] = place.record["created_at"]


def finish_run(place: Place) -> None:
    """A running one has no end."""
    record = place.record
    if record["status"] == "running" and record.get("ended_at") is not None:
        place.notes.append(
            f"is running though it has an end_time ({record['ended_at'].isoformat()}), which is left out"
        )
        record["ended_at"] = None


def finish_version(place: Place) -> None:
    """Its content is named by its hash."""
    place.record["dsl_hash"] = dsl_hash(place.record["dsl"])


def finish_node_version(place: Place) -> None:
    """Its configuration is named by its hash."""
    place.record["config_hash"] = config_hash(place.record)


def finish_invocation(place: Place) -> None:
    """Scores unrounded, times that fit its status, and what older columns held."""
    record = place.record
    _objects_only(place)
    _end_fits_status(place)
    record["created_at"] = instant(place.row.columns["start_time"])
    record["updated_at"] = record.get("ended_at") or record["created_at"]
    derived_score, derived_accuracy = _scores_of(place.exact("fitness"))
    record["fitness_score"] = _unrounded(place, "fitness_score", derived_score)
    record["accuracy"] = _unrounded(place, "accuracy", derived_accuracy)
    io = place.exact("workflow_io")
    if io is not None and io.startswith(b"{"):
        found = members(io)
        for column, names in (("input", ("workflowInput", "input")), ("output", ("workflowOutput", "output"))):
            if record.get(column) is None:
                record[column] = next((found[name] for name in names if name in found), None)


def _objects_only(place: Place) -> None:
    """Keep beside the row metadata that is no object."""
    if not place.record["metadata"].startswith(b"{"):
        place.kept["metadata"] = place.record["metadata"]
        place.record["metadata"] = EMPTY


def _end_fits_status(place: Place) -> None:
    """Keep beside the row the times that its status does not have."""
    record = place.record
    if record["status"] in ("running", "queued") and record.get("ended_at") is not None:
        place.kept["end_time"] = place.row.columns["end_time"]
        record["ended_at"] = None
        place.notes.append(f"is {record['status']} though it has an end_time, which is kept beside")
    if record["status"] == "queued":
        place.kept["start_time"] = place.row.columns["start_time"]
        record["started_at"] = None


def finish_node_invocation(place: Place) -> None:
    """A status that nodes have, an error that is an object, times that fit."""
    record = place.record
    kept_status = {"queued": "running", "rolled_back": "failed", "cancelled": "failed"}.get(record["status"])
    if kept_status:
        place.kept["status"] = place.row.columns["status"]
        place.notes.append(f"is {record['status']}, which a node is not; it is {kept_status}")
        record["status"] = kept_status
    _objects_only(place)
    error = record.get("error")
    if error is not None and not error.startswith(b"{"):
        place.kept["error"] = error
        message = error if error.startswith(b'"') else json.dumps(error.decode()).encode()
        record["error"] = JsonObject(b'{"message":' + message + b"}")
    _end_fits_status(place)
    record["created_at"] = record["started_at"]


def _scores_of(fitness: bytes | None) -> tuple[float | None, float | None]:
    """Score and accuracy, from each of the shapes that `fitness` has had: flat, in `data`, or a bare number."""
    value = decoded(fitness) if fitness is not None else None
    if isinstance(value, dict):
        inner = value["data"] if isinstance(value.get("data"), dict) else value
        accuracy = _double(inner.get("accuracy"))
        return _double(inner.get("score")), _double(inner.get("dataAccuracy")) if accuracy is None else accuracy
    return _double(value), None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _unrounded(place: Place, name: str, derived: float | None) -> float | None:
    """The number before it was rounded into its column; the column's own where `fitness` says another."""
    column: float | None = place.record.get(name)
    if derived is None or column is None:
        return column if derived is None else derived
    if column == math.floor(column) and abs(column - derived) <= _ROUNDING:
        return derived
    if column != derived:
        place.notes.append(f"has {name} {column:g}, but its fitness says {derived:g}; the column is taken")
    return column


def finish_mcp_server(place: Place) -> None:
    """It has not changed since it was made, as far as anybody knows."""
    place.record["updated_at"] = place.record["created_at"]


def finish_mcp_config(place: Place) -> None:
    """A configuration that may hold the value of a secret has no place here, nor has one that reaches nothing."""
    config = place.record["config"]
    if place.record.get("server_id") is None and "command" not in members(config):
        place.omitted = "its configuration names neither a server nor a command"
    try:
        refuse_secrets("/config_json", config)
    except SecretRefused:
        place.omitted = "its configuration may hold the value of a secret, and those are never stored"
