"""Costs, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.http.paging import ListQuery, PageOf
from app.invocations.schemas import InvocationFilter

GroupBy = Literal["day", "workflow", "version", "node", "model", "run", "generation"]


class CostList(InvocationFilter, ListQuery):
    """Which invocations' costs, and by what to group them."""

    group_by: GroupBy = Field("day", description="`day` is the UTC day of `started_at`.")
    sort: Literal["key", "usd_cost"] | None = None


class Costs(BaseModel):
    """What a set adds up to."""

    count: int = Field(description="Node invocations where they are grouped by `node` or `model`, else invocations.")
    unpriced_count: int = Field(description="Those of them that state no cost.")
    usd_cost: float | None = Field(description="The exact sum of the costs stated; null where none is.")
    input_tokens: int | None = Field(description="Of the node invocations; null where none states them.")
    output_tokens: int | None


class CostGroup(Costs):
    """What a group adds up to."""

    key: str | None = Field(description="The day as `2026-01-05`, else an id or a model; null for those without one.")


class CostPage(PageOf[CostGroup]):
    """A page of groups, and what all groups of all pages add up to."""

    group_by: GroupBy
    currency: Literal["USD"]
    totals: Costs
