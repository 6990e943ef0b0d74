"""Events in SQL: how they get their position, and what they are about."""

from __future__ import annotations

from dataclasses import dataclass

from app.db.database import Reader
from app.db.shape import Shape, instant, stored_bytes
from app.db.sql import load

# Everyone who gives positions, or changes where events are kept, holds this lock.
SEQUENCER_LOCK = 0x6361_6972_6E_02
EVENT = Shape(
    "id", "type", "subject_type", "subject_id", "subject_parent_id", instant("occurred_at"), "position", "data"
)
SQL = load(__file__, event=EVENT.json("e"), size=stored_bytes("t.data"))
# How often a round looks for more behind the events of tenants whose heads are held.
ROUNDS_MAX = 8
MISSING_MONTH = SQL["month_is_missing"]
PAST_MONTHS = SQL["past_months"]


@dataclass(frozen=True)
class Subject:
    """A kind of resource that events are about: where its rows are, and which of its fields are verbatim.

    `parent` is the column of what it is identified within (an invocation, a dataset), `key` the column of the id;
    `changes` are the ends of the types of its events.
    """

    type: str
    table: str
    fields: tuple[str, ...]
    changes: tuple[str, ...]
    key: str = "id"
    parent: str | None = None

    @property
    def event_types(self) -> frozenset[str]:
        """The types of its events."""
        return frozenset(f"{self.type}.{change}" for change in self.changes)


@dataclass(frozen=True)
class Sequenced:
    """The seconds that each event waited for its position, and the tenants whose events they are, each once."""

    waited: list[float]
    tenant_ids: list[str]


async def sequence(database: Reader, limit: int) -> Sequenced:
    """Give positions to the oldest committed events, at most `limit`.

    Each tenant's positions are dense, and an event's position is committed with the event itself: whoever sees a
    position sees all before it. One caller works at a time; another finds nothing. A tenant whose head is held, as by
    whoever enables a webhook, is passed over until it is free: no tenant holds up the events of another.
    """
    waited: list[float] = []
    tenant_ids: dict[str, None] = {}
    passed_over: list[str] = []
    for _ in range(ROUNDS_MAX):
        row = await database.row(
            SQL["sequence"], lock=SEQUENCER_LOCK, limit=limit - len(waited), passed_over=passed_over
        )
        if row is None:
            break
        waited += row["waited"] or []
        tenant_ids |= dict.fromkeys(row["tenant_ids"] or [])
        passed_over += row["held"]
        if not row["held"] or len(waited) >= limit:
            break
    return Sequenced(waited, list(tenant_ids))
