"""The plan that PostgreSQL keeps for a statement, whatever values come."""

from __future__ import annotations

import asyncpg


async def kept_plan(connection: asyncpg.Connection, text: str, parameters: int, options: str = "FORMAT JSON") -> str:
    """The generic plan. EXPLAIN alone plans for the values it is given, whatever the mode; EXECUTE takes this one."""
    await connection.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE asked AS {text}")
    try:
        nothing = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
        rows = await connection.fetch(f"EXPLAIN ({options}) EXECUTE asked{nothing}")
    finally:
        await connection.execute("DEALLOCATE asked; RESET plan_cache_mode")
    # The service's connections give JSON as bytes.
    return "\n".join(row[0].decode() if isinstance(row[0], bytes) else row[0] for row in rows)
