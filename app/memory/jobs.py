"""What happens to memory beside the requests: what has expired leaves, partitions of deleted spaces are dropped."""

from __future__ import annotations

import asyncpg

from app.db.database import Database, Reader, Transaction
from app.db.sql import Statement
from app.errors import PersistenceError, Unavailable
from app.memory import item_store
from app.memory.partitions import names_a_dropped_one, table_of

# The parent is locked too, and whoever meets a partition for the first time looks at it: nobody waits for us longer.
# The partition is locked before it, and without waiting. Whoever holds the parent and waits for a partition closes a
# circle: what uses the partition (a write planned before, the build of its index) waits for who makes a space, by the
# lock of the tenant's spaces or by its snapshot, and who makes a space for the parent. PostgreSQL then ends one of
# them, be it the build.
_WAIT = Statement("SELECT set_config('lock_timeout', '200ms', true) AS set")
# Row and partition are made in one transaction, so this sees both or neither.
_LEFT = Statement("""
SELECT CAST(substr(c.relname, length('memory_vectors_') + 1) AS bigint) AS number
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = CAST('memory_vectors' AS regclass) AND NOT EXISTS (
  SELECT FROM memory_spaces AS s WHERE s.number = CAST(substr(c.relname, length('memory_vectors_') + 1) AS bigint))
ORDER BY 1 LIMIT CAST(:limit AS bigint)""")


_SPACES = Statement("SELECT number FROM memory_spaces WHERE tenant_id = :tenant_id ORDER BY number")
_CHANGE = Statement("SELECT cairn_change_spaces(:tenant_id) AS held")
_FORGET = Statement("DELETE FROM memory_spaces WHERE tenant_id = :tenant_id AND number = :number RETURNING 1")
_ESTIMATE = Statement(
    "SELECT GREATEST(CAST(reltuples AS bigint), 0) AS rows FROM pg_class WHERE oid = to_regclass(:name)"
)
# Partitions that are looked at in one call, at most.
PARTITIONS_MAX = 1000


async def spaces_of(reader: Reader, tenant_id: str) -> list[int]:
    """The numbers of a tenant's spaces."""
    return [row["number"] for row in await reader.rows(_SPACES, tenant_id=tenant_id)]


async def vectors_in(database: Database, number: int) -> int:
    """How many rows lie in a partition: counted, or estimated where that takes too long."""
    estimate = await database.row(_ESTIMATE, name=table_of(number))
    if estimate is None:
        return 0
    try:
        counted = await database.row(Statement(f"SELECT count(*) AS rows FROM {table_of(number)}"))
    except Unavailable:
        return int(estimate["rows"])
    return 0 if counted is None else int(counted["rows"])


async def drop_space(transaction: Transaction, tenant_id: str, number: int) -> None:
    """Delete a space with its partition, be it the active one. Raises `Unavailable` while it is in use."""
    await transaction.row(_CHANGE, tenant_id=tenant_id)
    await _drop(transaction, number)
    await transaction.rows(_FORGET, tenant_id=tenant_id, number=number)


async def vectors_left(database: Database, tenant_id: str) -> int:
    """How many rows of a tenant lie in partitions whose space is gone."""
    total = 0
    for row in await database.rows(_LEFT, limit=PARTITIONS_MAX):
        counting = Statement(f"SELECT count(*) AS rows FROM {table_of(row['number'])} WHERE tenant_id = :tenant_id")
        try:
            counted = await database.row(counting, tenant_id=tenant_id)
        except PersistenceError as refusal:
            if not names_a_dropped_one(refusal):
                raise
            continue
        total += 0 if counted is None else counted["rows"]
    return total


async def _drop(transaction: Transaction, number: int) -> None:
    await transaction.row(_WAIT)
    table = table_of(number)
    await transaction.rows(Statement(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT"))
    await transaction.rows(Statement(f"DROP TABLE {table}"))


async def drop_deleted_spaces(database: Database, limit: int) -> int:
    """Drop partitions whose space is gone; how many. One that is still in use is passed over until the next time, and
    one that another process has dropped by then for good.
    """
    dropped = 0
    for row in await database.rows(_LEFT, limit=limit):
        try:
            async with database.writing() as transaction:
                await _drop(transaction, row["number"])
        except (PersistenceError, Unavailable) as refusal:
            in_use = isinstance(refusal.__cause__, asyncpg.LockNotAvailableError)
            if not in_use and not names_a_dropped_one(refusal):
                raise
        else:
            dropped += 1
    return dropped


async def purge_expired_items(database: Database, limit: int) -> int:
    """Remove items that have expired, with their vectors; nobody sees them any more."""
    return await item_store.purge(database, limit)
