"""Claims for workers that take whatever is next, the leases that they renew, and what becomes of those they do not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.page import PAGE_BYTES_MAX
from app.db.shape import stored_bytes
from app.db.sql import Statement, load
from app.submissions import store, transitions
from app.submissions.watching import keys_of

EMPTY = b'{"items":[]}'
_ORDER = "s.priority DESC, s.sequence"
_WEIGHED = ", s.priority, s.sequence, s.input"
# One is claimed only as long as those before it have not too many bytes of input, for all of it is shown.
_FITTING = f"""(
    SELECT w.tenant_id, w.id FROM (
      SELECT c.tenant_id, c.id, sum({stored_bytes("c.input")}) OVER (
        ORDER BY c.priority DESC, c.sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
      FROM chosen AS c
    ) AS w WHERE COALESCE(w.before, 0) < {PAGE_BYTES_MAX}
  )"""


def _items(json: str) -> str:
    """The SQL aggregate that gives `{"items":[…]}`, also of none."""
    listed = f"COALESCE(string_agg(CAST({json} AS text), ',' ORDER BY {_ORDER}), '')"
    return f"CAST('{{\"items\":[' || {listed} || ']}}' AS json)"


@lru_cache(maxsize=256)
def _claim_next(limit: int, of_agent: bool) -> Statement:
    return load(
        __file__,
        "claim_next.sql",
        **store.FRAGMENTS,
        items=_items(store.FRAGMENTS["submission"]),
        items_with_input=_items(store.FRAGMENTS["with_input"]),
        of_agent=" AND s.agent = :agent" if of_agent else "",
        limit=str(int(limit)),
        weighed=_WEIGHED if limit > 1 else "",
        fitting=_FITTING if limit > 1 else "chosen",
    )["claim_next"]


async def claim_next(writer: Writer, tenant_id: str, given: dict[str, Any], *, last: bool) -> Answer | None:
    """Claim what is next, at most `limit` submissions, each with its input and a new attempt.

    They are fewer where those before one have 16 MiB of inputs already; the first is given whatever its size.
    None where there is nothing, unless it is the `last` try: then none are the answer.
    """
    agent = given.get("agent")
    return await writer.answer(
        _claim_next(given.get("limit", 1), agent is not None),
        tenant_id=tenant_id,
        agent=agent,
        owner_id=given["owner_id"],
        last=last,
        **store.lease_of({"lease_seconds": given.get("lease_seconds", 30)}),
    )


async def renew(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Renew the leases that the owner holds, whether lapsed or not; which were renewed, and which skipped."""
    answer = await writer.answer(
        store.SQL["renew"],
        tenant_id=tenant_id,
        owner_id=given["owner_id"],
        ids=given["submission_ids"],
        **store.lease_of(given),
    )
    assert answer is not None  # an aggregate without GROUP BY has a row
    return answer


@dataclass(frozen=True)
class Lapsed:
    """How many leases were found lapsed and dealt with, and what to tell of what can be claimed now."""

    count: int
    moved: list[Key]


async def lapse(database: Reader, limit: int, first_seconds: float, longest_seconds: float) -> Lapsed:
    """Return what has lapsed to the queue, or settle it as failed where no attempt or no time is left.

    The pause before the next attempt begins at `first_seconds` and doubles with each, up to `longest_seconds`.
    """
    rows = await database.rows(
        transitions.SQL["lapse"], limit=limit, first_seconds=first_seconds, longest_seconds=longest_seconds, dead=True
    )
    agents: dict[str, set[str]] = {}
    for row in rows:
        if row["runnable"]:
            agents.setdefault(row["tenant_id"], set()).add(row["agent"])
    moved = [key for tenant_id, names in agents.items() for key in keys_of(tenant_id, names)]
    return Lapsed(sum(row["lapsed"] for row in rows), moved)
