"""The contents of every table that has tenants, as digests: what must not change, and what must be the same."""

from __future__ import annotations

import asyncpg

from app.tables import METADATA

# Moved by merely reading with a key, and by the sequencer when it gives events their positions.
MOVING = {"api_keys": {"last_used_at"}}
SEQUENCED = frozenset({"outbox", "events", "event_heads"})


def tenant_tables() -> list[str]:
    """Every table whose rows belong to a tenant."""
    return sorted(table.name for table in METADATA.tables.values() if "tenant_id" in table.columns)


def _columns(table: str) -> str:
    moving = MOVING.get(table, set())
    return ", ".join(f'"{column.name}"' for column in METADATA.tables[table].columns if column.name not in moving)


async def digests(connection: asyncpg.Connection, tenant_id: str) -> dict[str, str]:
    """Rows and their digest, by table, of one tenant; events count whether they are sequenced yet or not."""
    found: dict[str, str] = {}
    for table in tenant_tables():
        if table in SEQUENCED:
            continue
        found[table] = await connection.fetchval(
            "SELECT count(*) || ' ' || md5(COALESCE(string_agg(row, '' ORDER BY row), ''))"
            f" FROM (SELECT md5(ROW({_columns(table)})::text) AS row FROM {table} WHERE tenant_id = $1) AS rows",
            tenant_id,
        )
    found["events"] = await connection.fetchval(
        "SELECT count(*) || ' ' || md5(COALESCE(string_agg(id, '' ORDER BY id), '')) FROM ("
        "SELECT id FROM outbox WHERE tenant_id = $1 UNION ALL SELECT id FROM events WHERE tenant_id = $1) AS written",
        tenant_id,
    )
    return found
