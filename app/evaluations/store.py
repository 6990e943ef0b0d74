"""Evaluations in SQL: one statement records, one reads a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.db.database import Answer, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.shape import Shape, instant
from app.db.sql import load
from app.evaluations.errors import EvaluationConflict

FIELDS = ("evaluator_id", "score", "accuracy", "rubric", "feedback", "metadata")

EVALUATION = Shape(
    "id",
    "invocation_id",
    "evaluator_id",
    "score",
    "accuracy",
    "rubric",
    "feedback",
    "metadata",
    instant("created_at"),
)

EVALUATIONS = Listing(
    "evaluations",
    "evaluations AS t",
    EVALUATION,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "asc"),
    filters={
        "invocation_id": "t.invocation_id = :invocation_id",
        "evaluator_id": "t.evaluator_id = ANY (:evaluator_id)",
    },
)

_SQL = load(__file__, evaluation=EVALUATION.json("e"))


async def record(writer: Writer, tenant_id: str, invocation_id: str, given: Mapping[str, Any]) -> Answer:
    """Record an evaluation: 201, or 200 with the row when it was recorded with the same fields.

    Raises `InvocationNotFound`, `ReferenceNotFound` (no such evaluator), `EvaluationConflict`.
    """
    evaluation_id = given.get("id") or new_id("eval")
    answer = await writer.answer(
        _SQL["record"],
        tenant_id=tenant_id,
        invocation_id=invocation_id,
        id=evaluation_id,
        digest=digest_of({**given, "id": evaluation_id}),
        **{name: given.get(name) for name in FIELDS},
    )
    if answer is None:
        raise EvaluationConflict("An evaluation with this id was recorded with other fields.", id=evaluation_id)
    return answer
