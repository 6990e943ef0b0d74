"""The table in docs/states.md is what the database's constraints hold, field by field and state by state."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.submissions.tables import STATUSES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "states.md").read_text()
NOW = "clock_timestamp()"
# A value for each field, as SQL.
VALUES = {
    "canonical_ready_at": NOW, "attempt_id": "'at'", "started_at": NOW, "owner_id": "'o'", "lease_expires_at": NOW,
    "lease_lapses_at": NOW, "input_applied_at": NOW, "recovery_requested_at": NOW, "abort_requested_at": NOW,
    "timeout_at": NOW, "not_before": NOW, "joined_into": "'h'", "settlement_record_id": "'r'",
    "settlement_record": "'{}'", "settlement_outcome": "'failed'", "settled_at": NOW, "outcome": "'failed'",
    "error": "'e'",
}  # fmt: skip
# A legal row of each state; every other field is null.
LEGAL: dict[str, set[str]] = {
    "queued": set(),
    "running": {"attempt_id", "started_at"},
    "terminalizing": {
        "attempt_id",
        "started_at",
        "settlement_record_id",
        "settlement_record",
        "settlement_outcome",
    },
    "joining": {"joined_into", "canonical_ready_at"},
    "joined": {"joined_into", "canonical_ready_at", "input_applied_at"},
    "settled": {"settled_at", "outcome"},
}
MARKS = {(True, False): "●", (False, True): "○", (True, True): ""}


@pytest.fixture(scope="module")
async def connection(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[asyncpg.Connection]:
    made = await asyncpg.connect(await kept_clone())
    await made.execute("INSERT INTO tenants (tenant_id, name) VALUES ('t', 't')")
    await made.execute("INSERT INTO submission_sessions (tenant_id, session_key) VALUES ('t', 's')")
    yield made
    await made.close()


async def stands(connection: asyncpg.Connection, status: str, fields: set[str], **others: str) -> bool:
    """Whether the table takes a row with these fields; nothing of it stays."""
    columns = {
        "tenant_id": "'t'", "id": "'x'", "kind": "'k'", "agent": "'a'", "instance_id": "'i'", "input": "'1'",
        "digest": "''", "session_number": "(SELECT number FROM submission_sessions)", "status": f"'{status}'",
        "is_head": "true" if status == "running" else "false", **{name: VALUES[name] for name in fields}, **others,
    }  # fmt: skip
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(
            f"INSERT INTO submissions ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"
        )
    except asyncpg.CheckViolationError:
        return False
    finally:
        await transaction.rollback()
    return True


def table() -> dict[tuple[str, str], str]:
    """The marks of the page, by field and state."""
    section = PAGE.split("## The fields of each state")[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    header, _, *fields = rows
    return {
        (re.sub("`", "", row[0]), state): mark
        for row in fields
        for state, mark in zip(header[1:], row[1:], strict=True)
    }


@pytest.mark.parametrize("status", STATUSES)
async def test_the_page_says_which_fields_a_state_has(connection: asyncpg.Connection, status: str) -> None:
    legal = LEGAL[status]
    assert await stands(connection, status, legal)
    found = {
        name: MARKS[await stands(connection, status, legal | {name}), await stands(connection, status, legal - {name})]
        for name in VALUES
    }
    assert found == {name: mark for (name, state), mark in table().items() if state == status}


HEADS = {"queued": {True, False}, "running": {True}, "terminalizing": {True, False}}


@pytest.mark.parametrize("status", STATUSES)
async def test_only_what_can_go_on_is_the_head_of_a_session(connection: asyncpg.Connection, status: str) -> None:
    found = {head for head in (True, False) if await stands(connection, status, LEGAL[status], is_head=str(head))}
    assert found == HEADS.get(status, {False})


@pytest.mark.parametrize(
    ("others", "is_legal"),
    [
        ({"attempt_count": "10"}, False), ({"attempt_count": "9"}, True),
        ({"attempt_count": "10", "on_lapse": "'hold'"}, True),
        ({"on_lapse": "'drop'"}, False), ({"max_attempts": "0"}, False), ({"attempt_count": "-1"}, False),
        ({"timeout_seconds": "0"}, False),
    ],
)  # fmt: skip
async def test_a_queued_submission_has_an_attempt_left(
    connection: asyncpg.Connection, others: dict[str, Any], is_legal: bool
) -> None:
    assert await stands(connection, "queued", set(), **others) == is_legal


def test_the_diagram_has_every_state_and_no_other() -> None:
    diagram = PAGE.split("```mermaid")[1].split("```")[0]
    assert {name for ends in re.findall(r"(\w+) --> (\w+)", diagram) for name in ends} == set(STATUSES)
