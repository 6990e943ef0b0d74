"""Dead letters as whoever gives work up writes them."""

from __future__ import annotations

import asyncpg


async def bury(
    connection: asyncpg.Connection, tenant_id: str, letter_id: str, *, source: str = "submission", subject: str = "s",
    reason: str = "max_attempts", last_error: str | None = None,
) -> None:  # fmt: skip
    """Write a dead letter."""
    await connection.execute(
        "INSERT INTO dead_letters (tenant_id, id, source, subject, reason, attempts, last_error)"
        " VALUES ($1, $2, $3, $4, $5, 10, $6)",
        tenant_id, letter_id, source, subject, reason, last_error,
    )  # fmt: skip


async def bury_at(url: str, tenant_id: str, letter_id: str, **fields: str) -> None:
    """The same with a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        await bury(connection, tenant_id, letter_id, **fields)
    finally:
        await connection.close()
