"""Generations and their members in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.errors import InvalidInput, changed, invalid
from app.evolution.errors import (
    EvolutionRunEnded,
    EvolutionRunNotFound,
    GenerationCompleted,
    GenerationConflict,
    NoCompletedGeneration,
)
from app.evolution.links import GENERATION_TOTALS
from app.versions.errors import GenerationNotFound, VersionNotFound

NUMBER_MAX = 2**53 - 1
STATS = (
    "best_fitness",
    "worst_fitness",
    "avg_fitness",
    "fitness_std_dev",
    "evaluation_cost",
    "evaluations_per_hour",
    "improvement_rate",
)
_STATS = ", ".join(
    f"trim_scale({{t}}.{name}) AS {name}" if name == "evaluation_cost" else f"{{t}}.{name}" for name in STATS
)
_COLUMNS = (
    "id",
    "run_id",
    "number",
    instant("started_at"),
    instant("ended_at"),
    instant("interrupted_at"),
    "best_version_id",
    "comment",
    "feedback",
    computed("stats", f"(SELECT row_to_json(s) FROM (SELECT {_STATS}) AS s)"),
)
_DERIVED = ("member_count", "fitness", "invocation_count", "successful_invocation_count")
# What a write answers and an event carries; and what a read shows, with what is derived at that moment.
GENERATION = Shape(*_COLUMNS)
GENERATION_SEEN = Shape(*_COLUMNS, *(computed(name, f"d.{name}") for name in _DERIVED), beside=GENERATION_TOTALS)
MEMBER = Shape("version_id", "rank", "fitness")

GENERATIONS = Listing(
    "generations",
    "generations AS t",
    GENERATION_SEEN,
    sorts={"number": Sort("{t}.number", "bigint")},
    default=("number", "asc"),
    filters={"run_id": "t.run_id = :run_id"},
)

_SQL = load(
    __file__,
    "generation_queries.sql",
    generation=GENERATION.json("g"),
    generation_seen=GENERATION_SEEN.json("g"),
    member=MEMBER.json("m"),
)


def generation_digest(given: Mapping[str, Any]) -> bytes:
    """The digest of a generation's fields. Its id and number are compared where a create gives them."""
    return digest_of({name: value for name, value in given.items() if name not in ("id", "number")})


async def create(writer: Writer, tenant_id: str, run_id: str, given: dict[str, Any]) -> Answer:
    """Open a generation, in a transaction: 201, or 200 with the generation of this number and id as it now is.

    Raises `EvolutionRunNotFound`, `EvolutionRunEnded`, `GenerationConflict`.
    """
    run = await writer.row(_SQL["lock_run"], tenant_id=tenant_id, run_id=run_id)
    if run is None:
        raise EvolutionRunNotFound("There is no such evolution run.", id=run_id)
    given_id, number = given.get("id"), given.get("number")

    async def why() -> None:
        taken = await writer.row(_SQL["taken"], tenant_id=tenant_id, run_id=run_id, id=given_id, number=number)
        if taken is not None:
            raise GenerationConflict(
                "A generation with this id or number was created with other fields.",
                id=taken["id"],
                number=taken["number"],
            )
        if run["status"] != "running":
            raise EvolutionRunEnded(f"The run is {run['status']}; reopen it to go on.", current_status=run["status"])
        last = await writer.row(_SQL["last_number"], tenant_id=tenant_id, run_id=run_id)
        if number is None and last is not None and last["number"] == NUMBER_MAX:
            raise GenerationConflict("The run has used the last number; name one that is free.", number=NUMBER_MAX)

    return await decided(
        writer,
        _SQL["create"],
        why,
        tenant_id=tenant_id,
        run_id=run_id,
        given_id=given_id,
        id=given_id or new_id("gen"),
        number=number,
        started_at=given.get("started_at"),
        comment=given.get("comment"),
        feedback=given.get("feedback"),
        digest=generation_digest(given),
        may_open=run["status"] == "running",
        number_max=NUMBER_MAX,
    )


async def patch(
    writer: Writer, tenant_id: str, generation_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update comment and feedback where given. Raises `GenerationNotFound`, `PreconditionFailed`."""
    statement = _SQL["patch" if given else "unchanged"]
    answer = await writer.answer(statement, tenant_id=tenant_id, id=generation_id, if_match=if_match, **_notes(given))
    if answer is None:
        raise changed("generation", (await standing_of(writer, tenant_id, generation_id))["revision"])
    return answer


async def complete(
    writer: Writer, tenant_id: str, generation_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Complete a generation. The first completion stays; an exact repeat answers 200. No version is touched.

    Raises `GenerationNotFound`, `GenerationCompleted`, `VersionNotFound` (the best one), `PreconditionFailed`,
    `InvalidInput` (an end before the start).
    """
    digest, ended_at = digest_of(given), given.get("ended_at")
    stats = given.get("stats") or {}

    async def why() -> None:
        standing = await standing_of(writer, tenant_id, generation_id)
        if standing["ended_at"] is not None:
            if standing["end_digest"] != digest:
                raise GenerationCompleted("The generation is complete; its first completion stays.", id=generation_id)
        elif ended_at is not None and ended_at < standing["started_at"]:
            raise invalid("/ended_at", "must not be before started_at")
        else:
            _require_current(standing, if_match)

    return await decided(
        writer,
        _SQL["complete"],
        why,
        tenant_id=tenant_id,
        id=generation_id,
        ended_at=ended_at,
        best_version_id=given.get("best_version_id"),
        digest=digest,
        if_match=if_match,
        **_notes(given),
        **{name: stats.get(name) for name in STATS},
    )


def _notes(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: given.get(name) for name in ("comment", "feedback")}
    return {**found, "set_comment": "comment" in given, "set_feedback": "feedback" in given}


async def put_members(
    writer: Writer,
    tenant_id: str,
    generation_id: str,
    members: Sequence[Mapping[str, Any]],
    if_match: list[int] | None,
) -> Answer:
    """Say who was in the generation, in a transaction; it replaces what was said before, and the same changes nothing.

    Raises `GenerationNotFound`, `PreconditionFailed`, `VersionNotFound` with `missing_ids`, `InvalidInput` where a
    version comes twice.
    """
    ids = [member["version_id"] for member in members]
    _check_once(ids)
    standing = await writer.row(_SQL["lock"], tenant_id=tenant_id, id=generation_id)
    if standing is None:
        raise _not_found(generation_id)
    _require_current(standing, if_match)
    missing = await writer.rows(_SQL["missing_versions"], tenant_id=tenant_id, ids=ids)
    if missing:
        raise VersionNotFound("Members name versions that are not there.", missing_ids=[row["id"] for row in missing])
    answer = await writer.answer(
        _SQL["put_members"],
        tenant_id=tenant_id,
        id=generation_id,
        ids=ids,
        ranks=[member.get("rank") for member in members],
        fitnesses=[member.get("fitness") for member in members],
    )
    assert answer is not None
    return answer


def _check_once(ids: Sequence[str]) -> None:
    seen: set[str] = set()
    again = []
    for place, wanted in enumerate(ids):
        if wanted in seen:
            again.append(place)
        seen.add(wanted)
    if again:
        raise InvalidInput(
            "A version comes twice.",
            errors=[
                {"pointer": f"/items/{place}/version_id", "message": "is the version of an item before it"}
                for place in again[:100]
            ],
        )


async def members(reader: Reader, tenant_id: str, generation_id: str) -> Answer:
    """Everybody who was in the generation. Raises `GenerationNotFound`."""
    row = await reader.row(_SQL["members"], tenant_id=tenant_id, id=generation_id)
    if row is None:
        raise _not_found(generation_id)
    return Answer(200, row["body"], row["revision"])


async def get(reader: Reader, tenant_id: str, generation_id: str) -> Answer:
    """The generation with what is derived from its members and invocations. Raises `GenerationNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=generation_id)
    if row is None:
        raise _not_found(generation_id)
    return Answer(200, row["body"], row["revision"])


async def get_by_number(reader: Reader, tenant_id: str, run_id: str, number: int) -> Answer:
    """The run's generation of this number. Raises `EvolutionRunNotFound`, `GenerationNotFound`."""
    row = await reader.row(_SQL["get_by_number"], tenant_id=tenant_id, run_id=run_id, number=number)
    if row is None:
        await _require_run(reader, tenant_id, run_id)
        raise GenerationNotFound("The run has no generation of this number.", run_id=run_id, number=number)
    return Answer(200, row["body"], row["revision"])


async def last_completed(reader: Reader, tenant_id: str, run_id: str, *, checkpoint: bool) -> Answer:
    """The completed generation of the greatest number, with its members and, if asked, the run's checkpoint.

    Raises `EvolutionRunNotFound`, `NoCompletedGeneration`.
    """
    row = await reader.row(_SQL["last_completed"], tenant_id=tenant_id, run_id=run_id, checkpoint=checkpoint)
    if row is None:
        await _require_run(reader, tenant_id, run_id)
        raise NoCompletedGeneration("No generation of this run is complete yet.", run_id=run_id)
    body = row["body"][:-1] + b',"members":' + row["members"]
    if checkpoint:
        body += b',"checkpoint":' + (row["checkpoint"] or b"null")
    return Answer(200, body + b"}", row["revision"])


async def standing_of(reader: Reader, tenant_id: str, generation_id: str) -> Any:
    """Where the generation stands. Raises `GenerationNotFound`."""
    row = await reader.row(_SQL["standing"], tenant_id=tenant_id, id=generation_id)
    if row is None:
        raise _not_found(generation_id)
    return row


async def _require_run(reader: Reader, tenant_id: str, run_id: str) -> None:
    if await reader.row(_SQL["run_exists"], tenant_id=tenant_id, run_id=run_id) is None:
        raise EvolutionRunNotFound("There is no such evolution run.", id=run_id)


def _not_found(generation_id: str) -> GenerationNotFound:
    return GenerationNotFound("There is no such generation.", id=generation_id)


def _require_current(standing: Any, if_match: list[int] | None) -> None:
    if if_match is not None and standing["revision"] not in if_match:
        raise changed("generation", standing["revision"])
