"""What happens to memory beside the requests: what has expired leaves, partitions of deleted spaces are dropped."""

from __future__ import annotations

import asyncpg

from app.db.database import Database
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


async def drop_deleted_spaces(database: Database, limit: int) -> int:
    """Drop partitions whose space is gone; how many. One that is still in use is passed over until the next time, and
    one that another process has dropped by then for good.
    """
    dropped = 0
    for row in await database.rows(_LEFT, limit=limit):
        try:
            async with database.writing() as transaction:
                await transaction.row(_WAIT)
                table = table_of(row["number"])
                await transaction.rows(Statement(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT"))
                await transaction.rows(Statement(f"DROP TABLE {table}"))
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
