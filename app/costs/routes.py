"""Costs over HTTP."""

from __future__ import annotations

from app.costs import listing
from app.costs.schemas import CostList, CostPage
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import answered, asked
from app.invocations.listing import filters

routes = Routes("costs")


@routes.get("/v1/costs", scope="costs:read", response_model=CostPage)
async def list_costs(call: Call, query: CostList) -> Answer:
    """What invocations cost, grouped; `totals` is over every group of every page, exact to the last digit.

    By `day`, `workflow`, `version`, `run` and `generation` it is the invocations' own `usd_cost` that is added up; by
    `node` and `model` that of their node invocations. Tokens are always those of node invocations. An invocation
    belongs to the run it names, or else to that of its generation, or else to that of its version's generation. What
    has no key is the group whose key is null, so the groups add up to the totals.
    """
    named = {name: value for name, value in query.filters().items() if name != "group_by"}
    wanted = asked(call, query)
    found = await listing.costs(call.reader, call.tenant_id, query.group_by, wanted, filters(query, named))
    return answered(call, found)
