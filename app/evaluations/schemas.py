"""Evaluations, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, JsonValue, Score, Text
from app.http.paging import ListQuery, PageOf


class NewEvaluation(Body):
    """What an evaluator says of an invocation; without an id the service makes one."""

    id: Id | None = Field(None, examples=["eval_1"])
    evaluator_id: Id | None = Field(None, description="An evaluator that is there; none for a judgement by hand.")
    score: Score | None = Field(None, examples=[0.82])
    accuracy: Score | None = None
    rubric: JsonValue | None = Field(None, description="The criteria, or the marks for each of them.")
    feedback: Text | None = Field(None, examples=["Two of three sources are right."])
    metadata: JsonObject | None = None


class EvaluationList(ListQuery):
    """Filters of the list of evaluations; its order is that of their recording."""

    evaluator_id: list[str] | None = None
    sort: Literal["created_at"] | None = None


class Evaluation(BaseModel):
    """What an evaluator said of an invocation; it never changes."""

    id: str
    invocation_id: str
    evaluator_id: str | None
    score: float | None
    accuracy: float | None
    rubric: Any
    feedback: str | None
    metadata: dict[str, Any]
    created_at: datetime


class EvaluationPage(PageOf[Evaluation]):
    """A page of evaluations."""
