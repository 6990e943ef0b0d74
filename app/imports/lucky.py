"""The tables of Lucky, and what each becomes. The mapping for readers is docs/lucky.md, which a test holds complete."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from app.client.exact import members
from app.http.fields import JsonObject
from app.imports.fields import (
    decoded,
    identifier,
    instant,
    money,
    natural,
    one_of,
    payload,
    score,
    searchable,
    searchable_object,
    texts,
    whole,
    words,
)
from app.imports.mapping import Place, TableMapping
from app.versions.identity import dsl_hash
from app.versions.node_store import config_hash

EMPTY = JsonObject(b"{}")
_INVOCATION_STATUSES = one_of("running", "completed", "failed", "rolled_back", "queued", "cancelled")
# Of the columns that were rounded, how far they may be from what they were rounded from.
_ROUNDING = 0.5


def _finish_evaluator(place: Place) -> None:
    place.record["updated_at"] = place.record["created_at"]


def _finish_run(place: Place) -> None:
    record = place.record
    if record["status"] == "running" and record.get("ended_at") is not None:
        place.notes.append(
            f"is running though it has an end_time ({record['ended_at'].isoformat()}), which is left out"
        )
        record["ended_at"] = None


def _finish_version(place: Place) -> None:
    place.record["dsl_hash"] = dsl_hash(place.record["dsl"])


def _finish_node_version(place: Place) -> None:
    place.record["config_hash"] = config_hash(place.record)


def _finish_invocation(place: Place) -> None:
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


def _finish_node_invocation(place: Place) -> None:
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


WORKFLOW = TableMapping(
    "Workflow",
    "workflows",
    {
        "wf_id": ("id", identifier),
        "name": ("name", words),
        "description": ("description", words),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
        "updated_at": ("updated_at", instant),
    },
    required=("wf_id", "created_at", "updated_at"),
    keeps="metadata",
)
DATASET = TableMapping(
    "DataSet",
    "datasets",
    {
        "dataset_id": ("id", identifier),
        "name": ("name", words),
        "description": ("description", words),
        "data_format": ("data_format", words),
        "status": ("status", words),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
        "updated_at": ("updated_at", instant),
    },
    required=("dataset_id", "name", "created_at", "updated_at"),
    keeps="metadata",
)
DATASET_VERSION = TableMapping(
    "DatasetVersion",
    "dataset_versions",
    {
        "dataset_version_id": ("id", identifier),
        "dataset_id": ("dataset_id", identifier),
        "name": ("name", words),
        "version_label": ("version_label", words),
        "snapshot_metadata": ("snapshot_metadata", searchable),
        "created_at": ("created_at", instant),
    },
    required=("dataset_version_id", "dataset_id", "created_at"),
    references={"dataset_id": "datasets"},
    key=("dataset_id", "id"),
)
DATASET_RECORD = TableMapping(
    "DatasetRecord",
    "dataset_records",
    {
        "dataset_record_id": ("id", identifier),
        "dataset_id": ("dataset_id", identifier),
        "dataset_version_id": ("dataset_version_id", identifier),
        "workflow_input": ("workflow_input", payload),
        "ground_truth": ("ground_truth", payload),
        "output_schema_json": ("output_schema", searchable),
        "rubric": ("rubric", searchable),
        "created_at": ("created_at", instant),
    },
    required=("dataset_record_id", "dataset_id", "created_at"),
    references={"dataset_id": "datasets", "dataset_version_id": "dataset_versions"},
)
EVALUATOR = TableMapping(
    "Evaluator",
    "evaluators",
    {
        "evaluator_id": ("id", identifier),
        "name": ("name", words),
        "config": ("config", searchable),
        "rubric": ("rubric", searchable),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
    },
    required=("evaluator_id", "name", "created_at"),
    finish=_finish_evaluator,
    defaults={"updated_at": None},
)
EVOLUTION_RUN = TableMapping(
    "EvolutionRun",
    "evolution_runs",
    {
        "run_id": ("id", identifier),
        "goal_text": ("goal_text", words),
        "config": ("config", searchable_object),
        "status": ("status", one_of("running", "completed", "failed", "interrupted", "cancelled")),
        "evolution_type": ("evolution_type", words),
        "notes": ("notes", words),
        "clerk_id": ("owner_id", identifier),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
    },
    required=("run_id", "status", "start_time"),
    finish=_finish_run,
    defaults={"config": EMPTY},
)
GENERATION = TableMapping(
    "Generation",
    "generations",
    {
        "generation_id": ("id", identifier),
        "run_id": ("run_id", identifier),
        "number": ("number", natural),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "best_workflow_version_id": ("best_version_id", identifier),
        "comment": ("comment", words),
        "feedback": ("feedback", words),
    },
    required=("generation_id", "run_id", "number", "start_time"),
    references={"run_id": "evolution_runs", "best_version_id": "versions"},
)
VERSION = TableMapping(
    "WorkflowVersion",
    "versions",
    {
        "wf_version_id": ("id", identifier),
        "workflow_id": ("workflow_id", identifier),
        "dsl": ("dsl", payload),
        "operation": ("operation", one_of("init", "crossover", "mutation", "immigrant")),
        "parent1_id": ("parent1_id", identifier),
        "parent2_id": ("parent2_id", identifier),
        "parent_id": ("parent_id", identifier),
        "generation_id": ("generation_id", identifier),
        "commit_message": ("commit_message", words),
        "iteration_budget": ("iteration_budget", natural),
        "time_budget_seconds": ("time_budget_seconds", natural),
        "input_schema": ("input_schema", searchable),
        "output_schema": ("output_schema", searchable),
        "knowledge": ("knowledge", searchable),
        "all_workflow_io": ("io", payload),
        "created_at": ("created_at", instant),
        "updated_at": ("io_updated_at", instant),
    },
    required=("wf_version_id", "workflow_id", "dsl", "created_at"),
    finish=_finish_version,
    extra={"parent_id": "text", "io": "json", "io_updated_at": "timestamptz"},
    references={"workflow_id": "workflows", "generation_id": "generations"},
    defaults={"operation": "init", "parents_unknown": False, "dsl_hash": None},
)
NODE_VERSION = TableMapping(
    "NodeVersion",
    "node_versions",
    {
        "node_version_id": ("id", identifier),
        "wf_version_id": ("version_id", identifier),
        "node_id": ("node_id", identifier),
        "version": ("revision", natural),
        "system_prompt": ("system_prompt", words),
        "llm_model": ("llm_model", words),
        "tools": ("tools", texts),
        "description": ("description", words),
        "handoffs": ("handoffs", texts),
        "waiting_for": ("waiting_for", texts),
        "memory": ("memory", searchable_object),
        "extras": ("extras", searchable),
        "created_at": ("created_at", instant),
    },
    required=("node_version_id", "wf_version_id", "node_id", "version", "created_at"),
    keeps="extras",
    passed_over=("updated_at",),
    finish=_finish_node_version,
    references={"version_id": "versions"},
    extra={"kept_id": "text"},
    defaults={"tools": (), "handoffs": (), "waiting_for": (), "config_hash": None},
)
INVOCATION = TableMapping(
    "WorkflowInvocation",
    "invocations",
    {
        "wf_invocation_id": ("id", identifier),
        "wf_version_id": ("version_id", identifier),
        "run_id": ("run_id", identifier),
        "generation_id": ("generation_id", identifier),
        "dataset_record_id": ("dataset_record_id", identifier),
        "evaluator_id": ("evaluator_id", identifier),
        "status": ("status", _INVOCATION_STATUSES),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "workflow_input": ("input", payload),
        "workflow_output": ("output", payload),
        "expected_output": ("expected_output", words),
        "expected_output_type": ("expected_output_type", searchable),
        "actual_output": ("actual_output", words),
        "usd_cost": ("usd_cost", money),
        "fitness": ("fitness", payload),
        "fitness_score": ("fitness_score", score),
        "accuracy": ("accuracy", score),
        "novelty": ("novelty", score),
        "feedback": ("feedback", words),
        "preparation": ("preparation", words),
        "metadata": ("metadata", searchable),
        "extras": ("extras", searchable),
    },
    required=("wf_invocation_id", "wf_version_id", "status", "start_time"),
    keeps="extras",
    finish=_finish_invocation,
    references={
        "version_id": "versions",
        "run_id": "evolution_runs",
        "generation_id": "generations",
        "dataset_record_id": "dataset_records",
        "evaluator_id": "evaluators",
    },
    defaults={"metadata": EMPTY, "workflow_id": None, "created_at": None, "updated_at": None},
)
NODE_INVOCATION = TableMapping(
    "NodeInvocation",
    "node_invocations",
    {
        "node_invocation_id": ("id", identifier),
        "wf_invocation_id": ("invocation_id", identifier),
        "wf_version_id": ("version_id", identifier),
        "node_id": ("node_id", identifier),
        "node_version_id": ("node_version_id", identifier),
        "attempt_no": ("attempt_no", natural),
        "status": ("status", _INVOCATION_STATUSES),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "model": ("model", words),
        "output": ("output", payload),
        "summary": ("summary", words),
        "large_summary": ("large_summary", words),
        "usd_cost": ("usd_cost", money),
        "files": ("files", texts),
        "error": ("error", searchable),
        "metadata": ("metadata", searchable),
        "extras": ("extras", searchable),
    },
    required=("node_invocation_id", "node_id", "status", "start_time"),
    keeps="extras",
    passed_over=("updated_at",),
    finish=_finish_node_invocation,
    extra={"version_id": "text"},
    references={"invocation_id": "invocations", "node_version_id": "node_versions"},
    key=("invocation_id", "id"),
    needs={"invocation_id": "belongs to no workflow invocation: its wf_invocation_id is null"},
    defaults={"attempt_no": 1, "files": (), "metadata": EMPTY, "created_at": None},
)
MESSAGE = TableMapping(
    "Message",
    "messages",
    {
        "msg_id": ("id", identifier),
        "wf_invocation_id": ("invocation_id", identifier),
        "seq": ("seq", whole),
        "from_node_id": ("from_node_id", identifier),
        "to_node_id": ("to_node_id", identifier),
        "origin_invocation_id": ("origin_node_invocation_id", identifier),
        "target_invocation_id": ("target_node_invocation_id", identifier),
        "role": ("role", words),
        "payload": ("payload", payload),
        "created_at": ("created_at", instant),
    },
    required=("msg_id", "wf_invocation_id", "role", "created_at"),
    references={"invocation_id": "invocations"},
    key=("invocation_id", "id"),
    defaults={"seq": 0},
)
EVALUATION = TableMapping(
    "WorkflowInvocationEval",
    "evaluations",
    {
        "wf_inv_eval_id": ("id", identifier),
        "wf_inv_id": ("invocation_id", identifier),
        "accuracy": ("accuracy", score),
        "feedback": ("feedback", words),
        "created_at": ("created_at", instant),
    },
    required=("wf_inv_eval_id", "created_at"),
    keeps="metadata",
    references={"invocation_id": "invocations"},
    key=("invocation_id", "id"),
    needs={"invocation_id": "belongs to no workflow invocation: its wf_inv_id is null"},
)
# In the order in which they are stored: what is pointed to comes first.
TABLES = (
    WORKFLOW, DATASET, DATASET_VERSION, DATASET_RECORD, EVALUATOR, EVOLUTION_RUN, GENERATION, VERSION, NODE_VERSION,
    INVOCATION, NODE_INVOCATION, MESSAGE, EVALUATION,
)  # fmt: skip

_SIGN_IN = "people and organisations sign in elsewhere; Cairn has tenants and API keys"
_SECRETS = "Cairn keeps no secrets; its own API keys are made with `cairn keys create`"
LEFT_OUT = {
    "feedback": "words of users about the product, superseded by app.feedback; no part of the record",
    "app.errors": "the log of the application's own errors; no part of the record",
    "app.feedback": "words of users about the product; no part of the record",
    "app.gateway_settings": "preferences of the application's users",
    "app.user_onboarding": "preferences of the application's users",
    "app.user_profile": "preferences of the application's users",
    "iam.org_invites": _SIGN_IN,
    "iam.org_memberships": _SIGN_IN,
    "iam.orgs": _SIGN_IN,
    "iam.users": _SIGN_IN,
    "lockbox.secret_keys": _SECRETS,
    "lockbox.user_secrets": _SECRETS,
}
UNKNOWN = "no table of Lucky has this name"
