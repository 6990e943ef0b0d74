"""The database as the holder of a lease writes there: each transaction happens only while its token holds the lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from app.db.database import Database, Transaction
from app.db.fences import LeaseFence
from app.db.sql import Statement

HOLD_LEASE = Statement("SELECT cairn_hold_lease(:tenant_id, :name, :token) AS held")


class Leased(Database):
    """The same connections, under a lease that is held to each commit. Raises `StaleLease` once it is another's.

    For work that is not hot: a statement by itself becomes a transaction, four round trips instead of one.
    """

    def __init__(self, database: Database, tenant_id: str, fence: LeaseFence) -> None:
        self.settings, self.url, self._connections = database.settings, database.url, database._connections
        self._held = {"tenant_id": tenant_id, "name": fence.name, "token": fence.token}

    @asynccontextmanager
    async def writing(self, *, snapshot: bool = False) -> AsyncIterator[Transaction]:
        """One transaction, which holds the lease first."""
        async with super().writing(snapshot=snapshot) as transaction:
            await transaction.row(HOLD_LEASE, **self._held)
            yield transaction

    async def rows(self, statement: Statement, **arguments: Any) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own."""
        async with self.writing() as transaction:
            return await transaction.rows(statement, **arguments)
