"""Runs migrations: one migrator at a time, with bounds on every wait."""

from __future__ import annotations

import asyncio

from sqlalchemy import Connection

from alembic import context
from app.db.migrate import ignore_partitions, migrating
from app.db.revision import MigrationRefused
from app.settings import Settings
from app.tables import METADATA


def run(connection: Connection) -> None:
    """Run inside the connection that `migrating` holds the lock beside."""
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        include_object=ignore_partitions,
        transaction_per_migration=True,
        compare_type=True,
        compare_server_default=False,
    )
    with context.begin_transaction():
        context.run_migrations()


async def main() -> None:
    """Connect to the database of the settings, or the one that the caller passed in, and migrate."""
    given = context.config.attributes.get("database_settings")
    async with migrating(
        given or Settings().database, report=context.config.attributes.get("report", print)
    ) as connection:
        await connection.run_sync(run)


if context.is_offline_mode():
    raise SystemExit("Migrations look at the database; run them against one (without --sql).")
try:
    asyncio.run(main())
except MigrationRefused as refused:
    # The command line of Alembic would print a stack; whoever calls with settings of their own wants the exception.
    if "database_settings" in context.config.attributes:
        raise
    raise SystemExit(str(refused)) from refused
