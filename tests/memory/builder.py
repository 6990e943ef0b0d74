"""`python -m tests.memory.builder URL`: builds indexes of memory on a database until it is killed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from app.db.database import Database
from app.memory.indexing import IndexBuilder
from app.settings import DatabaseSettings, MemorySettings


def builder_of(
    database: DatabaseSettings, outcomes: list[str], clock: Callable[[], float] = time.monotonic
) -> IndexBuilder:
    """A builder for spaces of three and more; what came of its builds is listed."""
    memory = MemorySettings(index_rows_min=3, index_memory_mib=16)
    return IndexBuilder(database, memory, lambda outcome, _seconds: outcomes.append(outcome), clock)


async def build(url: str) -> None:
    """Look for an index to build, again and again."""
    settings = DatabaseSettings(url=url)
    database = await Database.open(settings)
    builder = builder_of(settings, [])
    while True:
        await builder.look(database, 1)
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(build(sys.argv[1]))
