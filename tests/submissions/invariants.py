"""What holds of the queue after every call, whoever called beside it."""

from __future__ import annotations

import asyncpg

# Each gives the rows that break the rule which names it.
INVARIANTS = {
    "a session counts its open submissions": """
        SELECT k.number, k.open_count FROM submission_sessions AS k
        WHERE k.open_count <> (SELECT count(*) FROM submissions AS s
          WHERE s.tenant_id = k.tenant_id AND s.session_number = k.number AND s.status <> 'settled')""",
    "the head of a session is its oldest open submission": """
        SELECT s.id, s.status, s.is_head FROM submissions AS s
        WHERE s.is_head IS DISTINCT FROM (s.status <> 'settled' AND NOT EXISTS (SELECT FROM submissions AS e
          WHERE e.tenant_id = s.tenant_id AND e.session_number = s.session_number AND e.status <> 'settled'
          AND e.sequence < s.sequence))""",
    "one submission of a session runs": """
        SELECT s.session_number FROM submissions AS s WHERE s.status = 'running'
        GROUP BY s.tenant_id, s.session_number HAVING count(*) > 1""",
    "what joins or has joined has an open host before it": """
        SELECT s.id, s.status, h.status AS host FROM submissions AS s
        LEFT JOIN submissions AS h ON h.tenant_id = s.tenant_id AND h.id = s.joined_into
          AND h.session_number = s.session_number AND h.sequence < s.sequence
        WHERE s.status IN ('joining', 'joined') AND (h.id IS NULL OR h.status = 'settled')""",
}


async def broken(connection: asyncpg.Connection) -> dict[str, list[dict[str, object]]]:
    """The rules that do not hold, with the rows that break them."""
    found = {name: await connection.fetch(sql) for name, sql in INVARIANTS.items()}
    return {name: [dict(row) for row in rows] for name, rows in found.items() if rows}
