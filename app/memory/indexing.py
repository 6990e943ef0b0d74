"""Builds the indexes of nearest neighbours while others read and write, and again where a build was cut off.

A build outlasts any request and any run of the timetable, and cannot be in a transaction: it has a connection of its
own, past a pooler, and there a lock that ends with it, so that no two build one index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import structlog

from app.db.apart import connected_apart
from app.db.database import Database
from app.db.sql import Statement, load
from app.errors import Unavailable
from app.memory.partitions import index_name, index_sql, table_of
from app.settings import DatabaseSettings, MemorySettings

log = structlog.get_logger("cairn.memory")

# After a build that failed the next one waits, twice as long each time: it may have taken all there was of something.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 10.0, 600.0
CLOSE_SECONDS = 5.0
_LOCKS = 24_307
_SQL = load(__file__, "index_queries.sql")


@dataclass(frozen=True)
class Wanting:
    """A space that wants an index: it has none, or not to its end (`begun`), or somebody asked for a new one."""

    tenant_id: str
    name: str
    number: int
    dimensions: int
    metric: str
    begun: bool
    requested_at: datetime | None


class IndexBuilder:
    """Builds one index at a time; `built` is told how each build ended: `built`, `failed` or `cancelled`."""

    def __init__(
        self,
        database: DatabaseSettings,
        memory: MemorySettings,
        built: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._memory, self._built, self._clock = database, memory, built, clock
        self._building: asyncio.Task[None] | None = None
        self._failures, self._rests_until = 0, 0.0
        # Spaces whose last build failed: others come before them.
        self._failed: set[int] = set()

    async def look(self, database: Database, _limit: int) -> int:
        """Begin a build where one is wanted and none is under way here; 1 if it did. The build goes on by itself."""
        if self._building is not None or self._clock() < self._rests_until:
            return 0
        wanting = await self._wanting(database)
        if wanting is None:
            return 0
        self._building = asyncio.create_task(self._guarded(wanting), name=f"index of space {wanting.number}")
        return 1

    async def finished(self) -> None:
        """Wait for the end of the build that is under way, if any."""
        if self._building is not None:
            await asyncio.wait({self._building})

    async def close(self) -> None:
        """Cut off what is under way; whoever looks next begins it again."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait({self._building}, timeout=CLOSE_SECONDS)

    async def _wanting(self, database: Database) -> Wanting | None:
        rows_min = self._memory.index_rows_min
        those = [Wanting(**row) for row in await database.rows(_SQL["wanting"], rows_min=rows_min)]
        self._failed &= {space.number for space in those}
        for space in sorted(those, key=lambda space: space.number in self._failed):
            if space.begun or space.requested_at is not None:
                return space
            counted = await database.row(
                Statement(
                    "SELECT count(*) AS found FROM (SELECT FROM"
                    f" {table_of(space.number)} WHERE embedding IS NOT NULL LIMIT {rows_min}) AS embedded"
                )
            )
            if counted is not None and counted["found"] >= rows_min:
                return space
        return None

    async def _guarded(self, space: Wanting) -> None:
        began, outcome = self._clock(), "cancelled"
        try:
            outcome = await self._build(space)
            self._failures = 0
        except asyncpg.UndefinedTableError:
            outcome = "left"  # The space was deleted meanwhile.
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, Unavailable) as error:
            outcome = "failed"
            self._failures += 1
            self._failed.add(space.number)
            pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * float(2 ** min(self._failures - 1, 10)))
            self._rests_until = self._clock() + pause
            log.error("index not built", space=space.name, tenant_id=space.tenant_id, error=str(error), again_in=pause)
        finally:
            self._building = None
            if outcome != "left":
                self._built(outcome, self._clock() - began)

    async def _build(self, space: Wanting) -> str:
        """Build it, on a connection that holds its lock; `left` where another process does, or has since."""
        began = self._clock()
        session = {
            "maintenance_work_mem": f"{self._memory.index_memory_mib}MB",
            "max_parallel_maintenance_workers": str(self._memory.index_workers),
        }
        async with connected_apart(self._database, "index builder", **session) as connection:
            lock = "SELECT pg_try_advisory_lock(hashtextextended(CAST($1 AS text), $2))"
            if not await connection.fetchval(lock, str(space.number), _LOCKS):
                return "left"
            name, table = index_name(space.number), table_of(space.number)
            valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
            if await connection.fetchval(valid, name) and space.requested_at is None:
                return "left"
            log.info("building an index", space=space.name, tenant_id=space.tenant_id)
            await self._drop_left(connection, space)
            if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
                await connection.execute(f"REINDEX INDEX CONCURRENTLY {name}", timeout=None)
            else:
                await connection.execute(index_sql(space.number, space.dimensions, space.metric), timeout=None)
            await connection.execute(f"ANALYZE {table}")
            if space.requested_at is not None:
                served = _SQL["served"]
                await connection.execute(served.text, *served.bind({
                    "tenant_id": space.tenant_id, "number": space.number, "requested_at": space.requested_at,
                }))  # fmt: skip
        log.info("index built", space=space.name, tenant_id=space.tenant_id, seconds=round(self._clock() - began, 1))
        return "built"

    async def _drop_left(self, connection: asyncpg.Connection, space: Wanting) -> None:
        """Drop what a build left that did not come to its end, be it a second one beside the valid one."""
        left = await connection.fetch(
            "SELECT c.relname AS name FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = to_regclass($1) AND NOT i.indisvalid AND c.relname LIKE $2",
            table_of(space.number),
            index_name(space.number).replace("_", r"\_") + "%",
        )
        for row in left:
            await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {row['name']}")
