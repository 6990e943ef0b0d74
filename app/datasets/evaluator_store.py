"""Evaluators in SQL."""

from __future__ import annotations

from typing import Any

from app.datasets.errors import EvaluatorConflict, EvaluatorInUse, EvaluatorNotFound
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import NotFound, changed

FIELDS = ("name", "config", "rubric", "owner_id")

EVALUATOR = Shape("id", *FIELDS, instant("created_at"), instant("updated_at"))
EVALUATORS = Listing(
    "evaluators",
    "evaluators AS t",
    EVALUATOR,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={"owner_id": "t.owner_id = :owner_id", "q": "position(lower(:q) IN lower(t.name)) > 0"},
)

_SQL = load(__file__, "evaluator_queries.sql", evaluator=EVALUATOR.json("e"))


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Create an evaluator: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `EvaluatorConflict` where the id belongs to an evaluator created with other fields.
    """
    evaluator_id = given.get("id") or new_id("evr")
    digest = digest_of({**given, "id": evaluator_id})

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=evaluator_id)
        if stored is not None and stored["digest"] != digest:
            raise EvaluatorConflict("An evaluator with this id was created with other fields.", id=evaluator_id)

    fields = {name: given.get(name) for name in FIELDS}
    return await decided(writer, _SQL["create"], why, tenant_id=tenant_id, id=evaluator_id, digest=digest, **fields)


async def patch(
    writer: Writer, tenant_id: str, evaluator_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `EvaluatorNotFound`, `PreconditionFailed`."""
    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    answer = await writer.answer(
        _SQL["patch"], tenant_id=tenant_id, id=evaluator_id, if_match=if_match, **fields, **named
    )
    if answer is None:
        current = await get(writer, tenant_id, evaluator_id)
        raise changed("evaluator", current.etag)
    return answer


async def get(reader: Reader, tenant_id: str, evaluator_id: str) -> Answer:
    """The evaluator. Raises `EvaluatorNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=evaluator_id)
    if row is None:
        raise EvaluatorNotFound("There is no such evaluator.", id=evaluator_id)
    return Answer(200, row["body"], row["revision"])


async def delete(writer: Writer, tenant_id: str, evaluator_id: str, if_match: list[int] | None) -> Answer:
    """Delete an evaluator. Raises `EvaluatorNotFound`, `PreconditionFailed`, `EvaluatorInUse`."""
    try:
        answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=evaluator_id, if_match=if_match)
    except NotFound as refusal:
        # What a foreign key refuses is told as missing; here it is what refers to the row.
        raise EvaluatorInUse("Something that stays refers to this evaluator.", id=evaluator_id) from refusal
    if answer is None:
        current = await get(writer, tenant_id, evaluator_id)
        raise changed("evaluator", current.etag)
    return answer
