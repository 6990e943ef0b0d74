"""What happens to events beside the requests: they get positions, and their partitions come and go with the months."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg

from app.db.database import Database, Transaction
from app.db.sql import Statement
from app.errors import PersistenceError, Unavailable
from app.events import store

_LOCK = Statement("SELECT pg_advisory_xact_lock(:lock)")
_MISSING = store.MISSING_MONTH
_PAST = store.PAST_MONTHS
# Every query of events looks at each partition: none waits longer for a change of them that waits for another.
_WAIT = Statement("SELECT set_config('lock_timeout', '200ms', true) AS set")
_ALONE = Statement("LOCK TABLE ONLY events IN ACCESS EXCLUSIVE MODE")
# What is larger is not looked through under the locks. Vacuum cuts off what is empty, so it gets smaller by itself.
EMPTY_BYTES_MAX = 8 << 20


def sequencer(
    observe: Callable[[list[float]], None], tell: Callable[[list[str]], None] | None = None
) -> Callable[[Database, int], Awaitable[int]]:
    """The job that gives committed events their positions; `observe` is told how long each of them waited.

    After the commit `tell` is given the tenants whose events have moved on, each once.
    """

    async def sequence(database: Database, limit: int) -> int:
        sequenced = await store.sequence(database, limit)
        observe(sequenced.waited)
        if tell is not None and sequenced.tenant_ids:
            tell(sequenced.tenant_ids)
        return len(sequenced.waited)

    return sequence


async def keep_partitions_ahead(database: Database, limit: int) -> int:
    """Make the partitions of this month and the next two where they are missing, one for each call below `limit`.

    Rows that lie in the default partition meanwhile move to the month's own. Again is the same as once. Raises
    `Unavailable` where somebody reads events for longer than a moment, as a backup does: the next time is soon enough.
    """
    made = 0
    while made < limit and await _make_one(database):
        made += 1
    return made


async def _make_one(database: Database) -> bool:
    async with database.writing() as transaction:
        # Without the sequencer nobody adds events, so none can reach the default partition between move and attach.
        await transaction.row(_LOCK, lock=store.SEQUENCER_LOCK)
        month = await transaction.row(_MISSING)
        if month is None:
            return False
        await transaction.row(_WAIT)
        name = f"events_p_{month['name']}"
        first, end = (f"'{month[at].isoformat()}'" for at in ("starts_at", "ends_at"))
        for sql in (
            f"CREATE TABLE {name} (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
            f"WITH moved AS (DELETE FROM events_p_default WHERE sequenced_at >= {first} AND sequenced_at < {end}"
            f" RETURNING *) INSERT INTO {name} SELECT * FROM moved",
            f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({end})",
        ):
            await transaction.rows(Statement(sql))
        return True


async def drop_empty_months(database: Database, limit: int) -> int:
    """Drop the partitions of months before this one that no tenant has an event in any more; how many.

    Events leave by each tenant's rule; their partition with the last of them, once vacuum has given back its space but
    for a rest that is looked through at once. Where somebody has events in use for longer than a moment, that is all
    until the next time.
    """
    dropped = 0
    for row in await database.rows(_PAST, bytes_max=EMPTY_BYTES_MAX, limit=limit):
        empty = Statement(f"SELECT FROM {row['name']} LIMIT 1")
        try:
            if await database.rows(empty):
                continue
            async with database.writing() as transaction:
                dropped += await _drop_if_empty(transaction, row["name"], empty)
        except (PersistenceError, Unavailable) as refusal:
            if isinstance(refusal.__cause__, asyncpg.LockNotAvailableError):
                # Whoever is in the way of one is in the way of the next, and every reader has waited.
                break
            # Another process may have dropped it.
            if not isinstance(refusal.__cause__, asyncpg.UndefinedTableError):
                raise
    return dropped


async def _drop_if_empty(transaction: Transaction, name: str, empty: Statement) -> bool:
    await transaction.row(_WAIT)
    # Without the sequencer nobody adds events.
    await transaction.row(_LOCK, lock=store.SEQUENCER_LOCK)
    # The parent before its partition, as every query of events: else each would wait for the other.
    await transaction.rows(_ALONE)
    if await transaction.rows(empty):
        return False
    await transaction.rows(Statement(f"DROP TABLE {name}"))
    return True
