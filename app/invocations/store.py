"""Invocations in SQL: the hot writes are set-based, one statement each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from app.datasets.errors import DatasetRecordNotFound
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.race import decided
from app.db.shape import Column, Shape, instant, money, verbatim
from app.db.sql import Statement, assignment, load
from app.errors import AppError, changed, invalid
from app.invocations.errors import (
    InvocationConflict,
    InvocationEnded,
    InvocationInUse,
    InvocationNotFound,
)
from app.invocations.tables import OPEN
from app.versions import store as versions

FIELDS = {
    "parent_invocation_id": "parents",
    "run_id": "run_ids",
    "generation_id": "generation_ids",
    "dataset_record_id": "record_ids",
    "submission_id": "submission_ids",
    "session_id": "session_ids",
    "input": "inputs",
    "preparation": "preparations",
}
RESULTS = {
    "evaluator_id": "evaluator_ids",
    "expected_output": "expected_outputs",
    "expected_output_type": "expected_types",
    "actual_output": "actual_outputs",
    "usd_cost": "usd_costs",
    "fitness": "fitnesses",
    "fitness_score": "fitness_scores",
    "accuracy": "accuracies",
    "novelty": "novelties",
    "feedback": "feedbacks",
    "metadata": "metadatas",
    "extras": "extrases",
}
OUTCOME = {"output": "outputs", "error": "errors"}
NEVER_NULL = frozenset({"metadata", "extras"})

INVOCATION = Shape(
    "id",
    "version_id",
    "workflow_id",
    "parent_invocation_id",
    "run_id",
    "generation_id",
    "dataset_record_id",
    "evaluator_id",
    "submission_id",
    "session_id",
    "status",
    instant("started_at"),
    instant("ended_at"),
    instant("heartbeat_at"),
    instant("cancel_requested_at"),
    verbatim("input"),
    verbatim("output"),
    "expected_output",
    "expected_output_type",
    "actual_output",
    money("usd_cost"),
    verbatim("fitness"),
    "fitness_score",
    "accuracy",
    "novelty",
    "feedback",
    "preparation",
    "error",
    "metadata",
    "extras",
    instant("created_at"),
    instant("updated_at"),
)

# The description is looked up for each row, so only where `include` names it.
DESCRIBED = Shape(
    *INVOCATION.columns,
    Column(
        "workflow_description",
        "(SELECT w.description FROM workflows AS w WHERE w.tenant_id = {t}.tenant_id AND w.id = {t}.workflow_id)",
        verbatim=True,
    ),
)

SQL = load(
    __file__,
    invocation=INVOCATION.json("i"),
    assignments=",\n    ".join(
        assignment("i", name, empty="CAST('{}' AS jsonb)" if name in NEVER_NULL else "NULL")
        for name in (*RESULTS, *OUTCOME)
    ),
)


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Record an invocation: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `VersionNotFound`, `VersionIsPruned`, `InvocationConflict`, and `ReferenceNotFound` for a link to what does
    not exist.
    """
    if given.get("status") == "queued" and given.get("started_at") is not None:
        raise invalid("/started_at", "must be absent while the status is queued")
    invocation_id = given.get("id") or new_id("inv")
    _check_parent(given, invocation_id)
    digest = digest_of({**given, "id": invocation_id})
    columns = {**FIELDS, **RESULTS, **OUTCOME}

    async def why() -> None:
        stored = await writer.row(SQL["standing"], tenant_id=tenant_id, id=invocation_id)
        if stored is None:
            await versions.require_content(writer, tenant_id, given["version_id"])
        elif stored["digest"] != digest:
            raise InvocationConflict("An invocation with this id was created with other fields.", id=invocation_id)

    with _naming(given):
        return await decided(
            writer,
            SQL["create"],
            why,
            tenant_ids=[tenant_id],
            ids=[invocation_id],
            version_ids=[given["version_id"]],
            statuses=[given.get("status", "running")],
            started_ats=[given.get("started_at")],
            digests=[digest],
            **{plural: [given.get(name)] for name, plural in columns.items()},
        )


async def patch(
    writer: Writer, tenant_id: str, invocation_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `InvocationNotFound`, `PreconditionFailed`, `InvocationEnded` for frozen ones."""
    _check_parent(given, invocation_id)
    arguments = {name: b"{}" if name in NEVER_NULL and value is None else value for name, value in given.items()}
    statement = _patch(frozenset(given)) if given else SQL["unchanged"]
    with _naming(given):
        answer = await writer.answer(statement, tenant_id=tenant_id, id=invocation_id, if_match=if_match, **arguments)
    if answer is not None:
        return answer
    standing = await standing_of(writer, tenant_id, invocation_id)
    refusal = unless_current(standing, if_match)
    if refusal is not None:
        raise refusal
    frozen = sorted(name for name in given if name not in RESULTS)
    raise ended(standing, frozen_fields=frozen)


@lru_cache(maxsize=1024)
def _patch(names: frozenset[str]) -> Statement:
    assignments = ", ".join(f"{name} = :{name}" for name in sorted(names))
    open_only = "" if names <= RESULTS.keys() else " AND i.status IN ('queued', 'running')"
    shown = INVOCATION.json("i")
    return Statement(
        f"WITH changed AS (UPDATE invocations AS i SET {assignments}, revision = i.revision + 1,"
        " updated_at = clock_timestamp() WHERE i.tenant_id = :tenant_id AND i.id = :id"
        f" AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match)){open_only} RETURNING *),"
        " event AS (INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
        f" SELECT i.tenant_id, 'invocation.updated', 'invocation', i.id, {shown} FROM changed AS i),"
        f" answer AS (SELECT 200 AS status, i.revision AS etag, {shown} AS body FROM changed AS i)",
        "patch_invocation",
    )


async def delete(writer: Writer, tenant_id: str, invocation_id: str, if_match: list[int] | None) -> Answer:
    """Delete an ended invocation with its nodes, messages, names of artifacts and all else below it; in a transaction.

    Raises `InvocationNotFound`, `PreconditionFailed`, `InvocationInUse` (it runs, or others descend from it).
    """
    standing = await writer.row(SQL["lock"], tenant_id=tenant_id, id=invocation_id)
    if standing is None:
        raise InvocationNotFound("There is no such invocation.", id=invocation_id)
    refusal = unless_current(standing, if_match)
    if refusal is not None:
        raise refusal
    if standing["status"] in OPEN:
        raise InvocationInUse("The invocation has not ended; cancel it first.", current_status=standing["status"])
    if standing["has_children"]:
        raise InvocationInUse("Other invocations have this one as parent; delete them first.")
    for part in ("delete_parts", "delete_nodes"):
        await writer.rows(SQL[part], tenant_id=tenant_id, id=invocation_id)
    answer = await writer.answer(SQL["delete"], tenant_id=tenant_id, id=invocation_id)
    assert answer is not None
    return answer


@lru_cache(maxsize=16)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT i.revision, {DESCRIBED.json('i', include)} AS body FROM invocations AS i"
        " WHERE i.tenant_id = :tenant_id AND i.id = :id"
    )


async def get(reader: Reader, tenant_id: str, invocation_id: str, include: frozenset[str] = frozenset()) -> Answer:
    """The invocation. Raises `InvocationNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, id=invocation_id)
    if row is None:
        raise InvocationNotFound("There is no such invocation.", id=invocation_id)
    return Answer(200, row["body"], row["revision"])


async def require(reader: Reader, tenant_id: str, invocation_id: str) -> None:
    """Raise `InvocationNotFound` unless the invocation is there."""
    await standing_of(reader, tenant_id, invocation_id)


async def standing_of(reader: Reader, tenant_id: str, invocation_id: str) -> Any:
    """Where the invocation stands. Raises `InvocationNotFound`."""
    row = await reader.row(SQL["standing"], tenant_id=tenant_id, id=invocation_id)
    if row is None:
        raise InvocationNotFound("There is no such invocation.", id=invocation_id)
    return row


def ended(standing: Any, **facts: Any) -> AppError:
    """The refusal of a change that the end forbids."""
    return InvocationEnded(
        f"The invocation is {standing['status']}; the first terminal state stays.",
        current_status=standing["status"],
        **facts,
    )


def unless_current(standing: Any, if_match: list[int] | None) -> AppError | None:
    """The refusal of a change whose `If-Match` does not name the row's revision."""
    if if_match is None or standing["revision"] in if_match:
        return None
    return changed("invocation", standing["revision"])


def _check_parent(given: dict[str, Any], invocation_id: str) -> None:
    if given.get("parent_invocation_id") == invocation_id:
        raise invalid("/parent_invocation_id", "must be another invocation")


@contextmanager
def _naming(given: dict[str, Any]) -> Iterator[None]:
    """A dataset record that is not there is named."""
    try:
        yield
    except DatasetRecordNotFound as refusal:
        refusal.facts["missing_ids"] = [given["dataset_record_id"]]
        raise
