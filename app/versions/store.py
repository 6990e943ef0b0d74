"""Versions in SQL."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, verbatim
from app.db.sql import Statement, load
from app.errors import NotFound, changed
from app.versions import node_store
from app.versions.errors import VersionConflict, VersionIsPruned, VersionNotFound, VersionPruned
from app.versions.identity import derived_id, dsl_hash
from app.workflows.store import WORKFLOW

THREAD_BYTES = 64 * 1024

VERSION = Shape(
    "id",
    "workflow_id",
    verbatim("dsl"),
    "dsl_hash",
    "operation",
    "parent1_id",
    "parent2_id",
    "parents_unknown",
    "generation_id",
    "commit_message",
    "iteration_budget",
    "time_budget_seconds",
    "input_schema",
    "output_schema",
    "knowledge",
    instant("created_at"),
    instant("pruned_at"),
)
# What is told when versions of a tenant were deleted, and what those in memory are counted as.
KIND = "version"
IO = Shape("version_id", instant("updated_at"))

VERSIONS = Listing(
    "versions",
    "versions AS t",
    VERSION,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "workflow_id": "t.workflow_id = :workflow_id",
        "generation_id": "t.generation_id = :generation_id",
        "dsl_hash": "t.dsl_hash = :dsl_hash",
        "parent_id": "(t.parent1_id = :parent_id OR t.parent2_id = :parent_id)",
        "run_id": "EXISTS (SELECT FROM generations AS g WHERE g.tenant_id = t.tenant_id"
        " AND g.id = t.generation_id AND g.run_id = :run_id)",
        "owner_id": "EXISTS (SELECT FROM workflows AS w WHERE w.tenant_id = t.tenant_id"
        " AND w.id = t.workflow_id AND w.owner_id = :owner_id)",
        "latest": "(NOT :latest OR NOT EXISTS (SELECT FROM versions AS v WHERE v.tenant_id = t.tenant_id"
        " AND v.workflow_id = t.workflow_id AND (v.created_at, v.id) > (t.created_at, t.id)))",
    },
)

_SQL = load(__file__, version=VERSION.json("v"), workflow=WORKFLOW.json("w"), io=IO.json("t"))
_TEXT = ("generation_id", "commit_message", "iteration_budget", "time_budget_seconds")
_JSON = ("input_schema", "output_schema", "knowledge")


def key_of(tenant_id: str) -> Key:
    """What is told when versions of a tenant were deleted."""
    return Key(KIND, tenant_id, "")


async def create(
    writer: Writer, tenant_id: str, workflow_id: str, given: dict[str, Any], *, keep: bool = False
) -> Answer:
    """Create a version, with its workflow if absent and its nodes, in the writer's transaction.

    201, or 200 with the stored version when content and ancestry are equal (`keep`: when the content is).
    Raises `VersionConflict`, `VersionNotFound` (a parent), `WorkflowNotFound`, `GenerationNotFound`.
    """
    if given.get("workflow") is not None:
        await _ensure_workflow(writer, tenant_id, workflow_id, given["workflow"])
    fields = await _fields(workflow_id, given)
    answer = await _insert(writer, tenant_id, fields, keep)
    if given.get("nodes"):
        if answer.status == 200 and not answer.moved:
            # Retention may have been at it: once that is over it is looked at again, and comes back if it left.
            await node_store.hold(writer, tenant_id, fields["id"])
            answer = await _insert(writer, tenant_id, fields, keep)
        await node_store.record(writer, tenant_id, fields["id"], given["nodes"])
    return answer


async def _fields(workflow_id: str, given: dict[str, Any]) -> dict[str, Any]:
    dsl = given["dsl"]
    hashed = await asyncio.to_thread(dsl_hash, dsl) if len(dsl) > THREAD_BYTES else dsl_hash(dsl)
    operation = given.get("operation", "init")
    parent1_id, parent2_id = given.get("parent1_id"), given.get("parent2_id")
    return {
        "id": given.get("id") or derived_id(workflow_id, hashed, operation, parent1_id, parent2_id),
        "workflow_id": workflow_id,
        "dsl": dsl,
        "dsl_hash": hashed,
        "operation": operation,
        "parent1_id": parent1_id,
        "parent2_id": parent2_id,
        "parents_unknown": given.get("parents_unknown", False),
        **{name: given.get(name) for name in (*_TEXT, *_JSON)},
    }


async def _insert(writer: Writer, tenant_id: str, fields: dict[str, Any], keep: bool) -> Answer:
    async def why() -> None:
        stored = await writer.row(_get(frozenset()), tenant_id=tenant_id, id=fields["id"])
        if stored is not None and not _same(stored, fields, keep):
            raise VersionConflict("A version with this id has another content or ancestry.", id=fields["id"])

    return await decided(writer, _SQL["create"], why, tenant_id=tenant_id, keep=keep, **fields)


def _same(stored: Any, fields: dict[str, Any], keep: bool) -> bool:
    names = ("workflow_id", "operation", "parent1_id", "parent2_id")
    return stored["dsl_hash"] == fields["dsl_hash"] and (keep or all(stored[name] == fields[name] for name in names))


async def _ensure_workflow(writer: Writer, tenant_id: str, workflow_id: str, given: dict[str, Any]) -> None:
    made = await writer.row(
        _SQL["insert_workflow"],
        tenant_id=tenant_id,
        id=workflow_id,
        digest=digest_of({**given, "id": workflow_id}),
        **{name: given.get(name) for name in ("name", "description", "owner_id", "metadata")},
    )
    if made is not None:
        await writer.rows(_SQL["announce_workflow"], tenant_id=tenant_id, id=workflow_id)


@lru_cache(maxsize=16)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        "SELECT v.workflow_id, v.dsl_hash, v.operation, v.parent1_id, v.parent2_id,"
        f" {VERSION.json('v', include)} AS body FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.id = :id"
    )


@lru_cache(maxsize=16)
def _latest(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT {VERSION.json('v', include)} AS body FROM versions AS v WHERE v.tenant_id = :tenant_id"
        " AND (CAST(:workflow_id AS text) IS NULL OR v.workflow_id = :workflow_id)"
        " ORDER BY v.created_at DESC, v.id DESC LIMIT 1"
    )


async def get(reader: Reader, tenant_id: str, version_id: str, include: frozenset[str] = frozenset()) -> Answer:
    """The version. Raises `VersionNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, id=version_id)
    if row is None:
        raise VersionNotFound("There is no such version.", id=version_id)
    return Answer(200, row["body"], etag_of(row["body"]))


def etag_of(body: bytes) -> int:
    """The revision of a version: 2 while its content is gone, else 1."""
    return 1 if body.endswith(b'"pruned_at":null}') else 2


def pruned(version_id: str) -> VersionPruned:
    """The refusal to show the content of a version that was pruned."""
    return VersionPruned(
        "Retention has let the content of this version go; the same posted again brings it back.", id=version_id
    )


async def latest(
    reader: Reader, tenant_id: str, workflow_id: str | None, include: frozenset[str] = frozenset()
) -> Answer:
    """The newest version, of the tenant or of one workflow. Raises `VersionNotFound`."""
    row = await reader.row(_latest(include), tenant_id=tenant_id, workflow_id=workflow_id)
    if row is None:
        raise VersionNotFound("There is no version here yet.")
    return Answer(200, row["body"])


async def dsl(reader: Reader, tenant_id: str, version_id: str) -> tuple[bytes, str]:
    """The exact DSL and its hash. Raises `VersionNotFound`, `VersionPruned`."""
    row = await reader.row(_SQL["dsl"], tenant_id=tenant_id, id=version_id)
    if row is None:
        raise VersionNotFound("There is no such version.", id=version_id)
    if row["dsl"] is None:
        raise pruned(version_id)
    return row["dsl"], row["dsl_hash"]


async def put_io(
    writer: Writer, tenant_id: str, version_id: str, io: bytes, if_match: list[int] | None, *, may_create: bool
) -> Answer:
    """Keep the recorded inputs and outputs of a version. Raises `VersionNotFound`, `PreconditionFailed`."""
    arguments = {"tenant_id": tenant_id, "id": version_id, "io": io, "if_match": if_match, "may_create": may_create}
    answer = await writer.answer(_SQL["put_io"], **arguments)
    if answer is None:
        await require(writer, tenant_id, version_id)
        stored = await writer.row(_SQL["io"], tenant_id=tenant_id, id=version_id)
        raise changed("record", None if stored is None else stored["revision"])
    return answer


async def io(reader: Reader, tenant_id: str, version_id: str) -> Answer:
    """The recorded inputs and outputs, exactly. Raises `VersionNotFound`, `NotFound` where none are recorded."""
    row = await reader.row(_SQL["io"], tenant_id=tenant_id, id=version_id)
    if row is None:
        await require(reader, tenant_id, version_id)
        raise NotFound("Nothing is recorded for this version; PUT it first.")
    return Answer(200, row["io"], row["revision"])


async def require_content(reader: Reader, tenant_id: str, version_id: str) -> None:
    """Raise `VersionNotFound` unless the version exists, `VersionIsPruned` where its content is gone."""
    row = await reader.row(_SQL["exists"], tenant_id=tenant_id, id=version_id)
    if row is None:
        raise VersionNotFound("There is no such version.", id=version_id)
    if row["is_pruned"]:
        raise VersionIsPruned(
            "The content of this version is gone, so it cannot be run; the same posted again brings it back.",
            id=version_id,
        )


async def require(reader: Reader, tenant_id: str, version_id: str) -> None:
    """Raise `VersionNotFound` unless the version exists."""
    if await reader.row(_SQL["exists"], tenant_id=tenant_id, id=version_id) is None:
        raise VersionNotFound("There is no such version.", id=version_id)
