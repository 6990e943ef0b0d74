"""Evaluators, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonValue, Text
from app.http.paging import ListQuery, PageOf

Name = Annotated[Text, Field(min_length=1)]


class EvaluatorChange(Body):
    """The fields of an evaluator to update."""

    name: Name = Field(default_factory=str, examples=["Strict judge"])
    config: JsonValue | None = Field(None, examples=[{"model": "small-1", "temperature": 0}])
    rubric: JsonValue | None = Field(None, examples=[[{"criterion": "is right", "weight": 1}]])
    owner_id: Id | None = Field(None, examples=["user_42"])


class NewEvaluator(EvaluatorChange):
    """An evaluator to create; without an id the service makes one."""

    id: Id | None = Field(None, examples=["evr_strict"])
    name: Name = Field(examples=["Strict judge"])


class EvaluatorList(ListQuery):
    """Filters of the list of evaluators."""

    owner_id: str | None = None
    q: Annotated[str, Field(max_length=255, description="Text within the name.")] | None = None
    sort: Literal["created_at"] | None = None


class Evaluator(BaseModel):
    """Who judges what came of an invocation: how, and by which rubric."""

    id: str
    name: str
    config: Any
    rubric: Any
    owner_id: str | None
    created_at: datetime
    updated_at: datetime


class EvaluatorPage(PageOf[Evaluator]):
    """A page of evaluators."""
