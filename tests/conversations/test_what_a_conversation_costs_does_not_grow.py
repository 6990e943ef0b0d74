"""The plans that PostgreSQL keeps among many conversations: each row is found by a key, in whatever order is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from app.conversations.store import CONVERSATIONS, SQL
from app.db.database import set_codecs
from app.db.sql import Statement
from tests.plans import kept_plan

FILL = """
INSERT INTO tenants (tenant_id) VALUES ('many'), ('other');
INSERT INTO stream_paths (tenant_id, path)
  SELECT t, 'path-' || n FROM generate_series(1, 20000) AS n, unnest(ARRAY['many', 'other']) AS t;
INSERT INTO conversation_streams (tenant_id, number, agent_name, instance_id, incarnation, next_seq)
  SELECT tenant_id, number, 'agent-' || number % 20, path, 'inc_' || number, 4 FROM stream_paths;
INSERT INTO conversation_batches (tenant_id, number, seq, producer_epoch, producer_sequence, digest, records,
                                  size_bytes)
  SELECT tenant_id, number, n, 1, n, sha256('x'), '[{}]', 4 FROM stream_paths, generate_series(0, 3) AS n;
INSERT INTO conversation_checkpoints (tenant_id, number, seq, incarnation, format_version, data)
  SELECT tenant_id, number, 1, 'inc', 1, '1' FROM stream_paths;
INSERT INTO submission_sessions (tenant_id, session_key) SELECT tenant_id, path FROM stream_paths;
INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest, canonical_ready_at)
  SELECT tenant_id, session_key, number, 'direct', 'agent-1', session_key, '{}', sha256('x'), now()
  FROM submission_sessions;
UPDATE submissions SET status = 'running', is_head = true, attempt_id = 'att', started_at = now()
  WHERE session_number % 2 = 0;
ANALYZE;
"""


@pytest.fixture(scope="module")
async def filled(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[asyncpg.Connection]:
    """A database of forty thousand conversations."""
    connection = await asyncpg.connect(await kept_clone())
    await set_codecs(connection)
    await connection.execute(FILL)
    yield connection
    await connection.close()


def nodes(plan: Any) -> Iterator[tuple[str, str, str]]:
    """Kind, table and index of each node of a plan."""
    if isinstance(plan, list):
        for part in plan:
            yield from nodes(part)
    elif isinstance(plan, dict):
        if "Node Type" in plan:
            yield plan["Node Type"], plan.get("Relation Name", ""), plan.get("Index Name", "")
        yield from nodes([value for value in plan.values() if isinstance(value, list | dict)])


STATEMENTS = {
    **{name: SQL[name].answering for name in ("create", "acquire", "append", "delete", "put_checkpoint")},
    "append under a key": SQL["append"].answering_under(key=True),
    **{name: SQL[name] for name in ("standing", "get", "forward", "backward", "moved", "get_checkpoint")},
    "list": CONVERSATIONS._statement("created_at", "desc", frozenset(), frozenset(), "key", 64),
    "list of an agent": CONVERSATIONS._statement(
        "created_at", "asc", frozenset({"agent_name"}), frozenset(), "start", 64
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_reads_a_table_from_end_to_end(filled: asyncpg.Connection, name: str) -> None:
    statement: Statement = STATEMENTS[name]
    plan = json.loads(await kept_plan(filled, statement.text, len(statement.parameters)))
    walked = {(kind, table) for kind, table, _ in nodes(plan) if kind == "Seq Scan" and table}
    assert walked == set(), json.dumps(plan, indent=1)[:6000]
    if name.startswith("append"):
        used = {index for _, table, index in nodes(plan) if table == "submissions"}
        assert used <= {"pk_submissions", "uq_submissions_open_attempt_id", "ix_submissions_joined_into"}
    if name.startswith("list") or name in ("forward", "backward"):
        sorts = [kind for kind, _, _ in nodes(plan) if kind == "Sort"]
        assert len(sorts) <= (0 if name.startswith("list") else 1), "only a page is put in order"


BURST = """
INSERT INTO tenants (tenant_id) VALUES ('new');
INSERT INTO stream_paths (tenant_id, path) VALUES ('new', 'p');
INSERT INTO conversation_streams (tenant_id, number, agent_name, instance_id, incarnation, next_seq)
  SELECT 'new', number, 'a', 'i', 'inc', 5000 FROM stream_paths WHERE tenant_id = 'new';
INSERT INTO conversation_batches
    (tenant_id, number, seq, producer_epoch, producer_sequence, digest, records, size_bytes)
  SELECT 'new', p.number, n, 1, n, sha256(''), '[{}]', 4
  FROM stream_paths AS p, generate_series(0, 4999) AS n WHERE p.tenant_id = 'new';
"""


@pytest.mark.parametrize(("name", "seq"), [("forward", -1), ("backward", 5000)])
async def test_a_page_reads_its_own_batches_where_no_statistics_know_the_tenant(
    filled: asyncpg.Connection, name: str, seq: int
) -> None:
    transaction = filled.transaction()
    await transaction.start()
    try:
        await filled.execute(BURST)
        values = {"tenant_id": "new", "path": "p", "seq": seq, "limit": 100, "page_bytes_max": 2**24}
        statement = SQL[name]
        explained = await filled.fetchval(
            f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement.text}",
            *(values[parameter] for parameter in statement.parameters),
        )
    finally:
        await transaction.rollback()
    passed_over = [number for key, number in numbers(json.loads(explained)) if key.startswith("Rows Removed")]
    assert sum(passed_over) < 100, explained.decode()


def numbers(plan: Any) -> Iterator[tuple[str, float]]:
    """The numbers of a plan with their names."""
    for key, value in plan.items() if isinstance(plan, dict) else enumerate(plan):
        if isinstance(value, list | dict):
            yield from numbers(value)
        elif isinstance(value, int | float):
            yield str(key), value
