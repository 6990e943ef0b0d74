"""Calls about what invocations cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeVar, Unpack

from app.client.bodies import InvocationConditions
from app.client.call import Call, Page, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.record import Record
from app.client.reply import Reply

M = TypeVar("M")
GroupBy = Literal["day", "workflow", "version", "node", "model", "run", "generation"]


class Costs(Record):
    """What a set of invocations, or of node invocations, adds up to; a sum is None where nothing states it."""

    count: int
    unpriced_count: int
    usd_cost: Decimal | None
    input_tokens: int | None
    output_tokens: int | None


class CostGroup(Costs):
    """What a group adds up to; `key` is a day, an id or a model, or None for what has none."""

    key: str | None


class CostFilter(InvocationConditions, total=False):
    """Which invocations' costs, and how the groups are cut and ordered."""

    limit: int
    cursor: str
    sort: Literal["key", "usd_cost"]
    order: Literal["asc", "desc"]
    count: Literal["exact"]


class CostReports(Resource[M]):
    """Exact sums over invocations and their nodes; the conditions are those of the list of invocations."""

    @listing
    def list(self, group_by: GroupBy, **filters: Unpack[CostFilter]) -> Call[Page[CostGroup]]:
        """What each group adds up to, by key unless `sort` is usd_cost."""
        return Call("GET", path("costs"), page_of(CostGroup), query({"group_by": group_by, **filters}))

    @endpoint
    def totals(self, group_by: GroupBy = "workflow", **conditions: Unpack[InvocationConditions]) -> Call[Costs]:
        """What all groups add up to."""
        return Call("GET", path("costs"), _totals, query({"group_by": group_by, "limit": 1, **conditions}))


def _totals(reply: Reply) -> Costs:
    return Costs(Record(reply.body).raw("totals").data, reply)
