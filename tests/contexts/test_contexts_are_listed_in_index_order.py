"""A page of contexts costs what it shows, wherever it is and however many there are."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from app.contexts.store import CONTEXTS, conditions
from app.http.service import Service
from tests.plans import kept_plan

ROWS = """
INSERT INTO tenants (tenant_id) VALUES ('t');
INSERT INTO workflows (tenant_id, id) VALUES ('t', 'w');
SET session_replication_role = replica;
INSERT INTO contexts (tenant_id, invocation_id, scope, node_id, key, summary, summary_given, content_type, size_bytes,
    digest, data)
  SELECT 't', 'i' || n % 10, 's' || n / 10 % 2, '', 'k' || lpad((n / 20)::text, 6, '0'), '', false, 'x/y', 0,
    sha256(''), ''
  FROM generate_series(0, 39999) AS n;
ANALYZE contexts
"""


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a plan."""
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes(part))]


async def test_no_page_sorts_or_reads_what_it_does_not_show(fresh: Service) -> None:
    connection = await asyncpg.connect(fresh.ground.database.url)
    try:
        await connection.execute(ROWS)
        for asked in ({}, {"scope": "s1"}, {"scope": "s1", "node_id": ""}):
            for place in ("start", "key"):
                given = frozenset({"invocation_id", *asked})
                statement = CONTEXTS._statement("key", "asc", given, frozenset(), place, 64)
                plan = json.loads(await kept_plan(connection, statement.text, len(statement.parameters)))[0]["Plan"]
                kinds = {node["Node Type"] for node in nodes(plan)}
                assert kinds.isdisjoint({"Sort", "Seq Scan", "Incremental Sort"}), (asked, place, kinds)
        given = {**conditions({"scope": "s1", "node_id": "", "pattern": "k0001*9"}), "invocation_id": "i1"}
        statement = CONTEXTS._statement("key", "asc", frozenset(given), frozenset(), "start", 64)
        plan = json.loads(await kept_plan(connection, statement.text, len(statement.parameters)))[0]["Plan"]
        (scan,) = [node for node in nodes(plan) if "Index Cond" in node]
        # The index is entered at what the pattern begins with, and left behind it.
        assert "key >=" in scan["Index Cond"]
        assert "key <" in scan["Index Cond"]
        found = await connection.fetch(statement.text, *statement.bind(
            {"tenant_id": "t", "limit": 50, "after_key": None, **{f"after_id_{n}": None for n in range(3)}, **given}
        ))  # fmt: skip
        assert len(found) == 10
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("pattern", "start", "before"),
    [
        ("plan/*", "plan/", "plan0"), ("a?", "a", "b"), ("*", None, None), ("plan", "plan", "plao"),
        ("\ud7ff*", "\ud7ff", "\ue000"), ("a\U0010ffff*", "a\U0010ffff", "b"), ("\U0010ffff*", "\U0010ffff", None),
    ],
)  # fmt: skip
def test_a_pattern_begins_somewhere(pattern: str, start: str | None, before: str | None) -> None:
    found = conditions({"pattern": pattern})
    assert (found.get("key_from"), found.get("key_before")) == (start, before)
    assert start is None or before is None or start.encode() < before.encode()
