"""B23: from nothing to head and back with rows of every status, and no difference between tables and migrations."""

from __future__ import annotations

import uuid
from asyncio import to_thread
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from sqlalchemy import CheckConstraint

from alembic import command
from app.db.migrate import config, downgrade, migrate
from app.db.revision import revisions
from app.embedded import Servers
from app.settings import DatabaseSettings
from app.tables import METADATA
from tests.conftest import database_url, new_tenant, running, settings_for
from tests.digests import digests

STATUSES = {
    "artifacts": ["uploading", "live", "marked", "deleting", "gone"],
    "evolution_runs": ["running", "completed", "failed", "cancelled", "interrupted"],
    "invocations": ["queued", "running", "completed", "failed", "cancelled", "rolled_back"],
    "node_invocations": ["running", "completed", "failed"],
    "jobs": ["queued", "running", "completed", "failed", "cancelled"],
    "offboardings": ["closed", "exporting", "deleting", "verifying", "completed", "failed"],
    "sessions": ["active", "suspended", "completed", "crashed", "archived"],
    "webhook_deliveries": ["pending", "queued", "sending", "delivered", "dead"],
    "submissions": ["queued", "running", "terminalizing", "settled", "joining", "joined"],
    "mcp_versions": ["draft", "in_review", "testflight", "released", "rejected", "yanked"],
}
OPEN = {"queued", "running"}
LEFT = """
SELECT relname AS name FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S', 'v', 'i')
UNION ALL
SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
UNION ALL
SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
"""


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[tuple[DatabaseSettings, asyncpg.Connection]]:
    """An empty database, and a connection to it."""
    name = f"m_{uuid.uuid4().hex}"
    admin = await asyncpg.connect(database_url(servers, "postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    url = database_url(servers, name)
    connection = await asyncpg.connect(url, statement_cache_size=0)
    yield DatabaseSettings(url=url), connection
    await connection.close()


def silent(_line: str) -> None:
    """The tests do not read what a migration reports."""


async def fill(connection: asyncpg.Connection, tenant: str) -> None:
    """Rows of every status."""
    await connection.execute(f"""
        INSERT INTO tenants (tenant_id) VALUES ('{tenant}');
        INSERT INTO workflows (tenant_id, id) VALUES ('{tenant}', 'w');
        INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
          VALUES ('{tenant}', 'v', 'w', '{{"a": "\\u0000"}}', 'raw:' || repeat('0', 64), 'init');
        INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, config_hash)
          VALUES ('{tenant}', 'nv', 'v', 'n', 1, sha256('x'));
        INSERT INTO mcp_servers (tenant_id, id, publisher_id, slug, display_name, visibility, digest)
          VALUES ('{tenant}', 's', 'p', 's', 'S', 'public', sha256('x'));
    """)
    for status in STATUSES["evolution_runs"]:
        await connection.execute(
            "INSERT INTO evolution_runs (tenant_id, id, status, started_at, ended_at)"
            f" VALUES ($1, $2, $2, now(), {'NULL' if status in OPEN else 'now()'})",
            tenant, status,
        )  # fmt: skip
    for status in STATUSES["invocations"]:
        await connection.execute(
            "INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, ended_at, digest)"
            f" VALUES ($1, $2, 'v', 'w', $2, {'NULL' if status == 'queued' else 'now()'},"
            f" {'NULL' if status in OPEN else 'now()'}, sha256('x'))",
            tenant, status,
        )  # fmt: skip
    for status in STATUSES["node_invocations"]:
        await connection.execute(
            "INSERT INTO node_invocations (tenant_id, invocation_id, id, node_id, node_version_id, status, started_at,"
            " ended_at, digest)"
            f" VALUES ($1, 'running', $2, 'n', 'nv', $2, now(), {'NULL' if status in OPEN else 'now()'}, sha256('x'))",
            tenant, status,
        )  # fmt: skip
    for state in STATUSES["jobs"]:
        await connection.execute(
            "INSERT INTO jobs (tenant_id, id, kind, state, ended_at)"
            f" VALUES ($1, $2, 'k', $2, {'NULL' if state in OPEN else 'now()'})",
            tenant, state,
        )  # fmt: skip
    for status in STATUSES["sessions"]:
        await connection.execute(
            "INSERT INTO sessions (tenant_id, id, status, digest) VALUES ($1, $2, $2, sha256('x'))", tenant, status
        )
    await fill_submissions(connection, tenant)
    for status in STATUSES["webhook_deliveries"]:
        await connection.execute(
            "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, event_type, body, status, lapses_at, ended_at)"
            f" VALUES ($1, $2, 'w', 'x.y', '{{}}', $2, {'now()' if status in ('queued', 'sending') else 'NULL'},"
            f" {'now()' if status in ('delivered', 'dead') else 'NULL'})",
            tenant, status,
        )  # fmt: skip
    for state in STATUSES["artifacts"]:
        await connection.execute(
            "INSERT INTO artifacts (tenant_id, hash, state, size_bytes, part_bytes, part_digests)"
            " VALUES ($1, sha256(convert_to($2, 'UTF8')), $2, 1, 1, '')",
            tenant, state,
        )  # fmt: skip
    for status in STATUSES["mcp_versions"]:
        await connection.execute(
            "INSERT INTO mcp_versions (tenant_id, server_id, id, version, status, listed, digest)"
            " VALUES ($1, 's', $2, $2, $2, false, sha256('x'))",
            tenant, status,
        )  # fmt: skip


async def fill_submissions(connection: asyncpg.Connection, tenant: str) -> None:
    """A submission of every status, each in the fields that are legal for it."""
    await connection.execute(
        "INSERT INTO submission_sessions (tenant_id, session_key, open_count) VALUES ($1, 'k', 5)", tenant
    )
    legal = {
        "queued": "",
        "running": "is_head = true, attempt_id = 'a', started_at = now()",
        "terminalizing": "attempt_id = 'a', started_at = now(), settlement_record_id = 'r', settlement_record = '{}',"
        " settlement_outcome = 'failed'",
        "settled": "settled_at = now(), outcome = 'failed', error = 'x'",
        "joining": "joined_into = 'running'",
        "joined": "joined_into = 'running', input_applied_at = now()",
    }
    for status in STATUSES["submissions"]:
        await connection.execute(
            "INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest,"
            " canonical_ready_at) SELECT $1, $2, number, 'direct', 'a', 'i', '{}', sha256('x'), now()"
            " FROM submission_sessions WHERE tenant_id = $1",
            tenant, status,
        )  # fmt: skip
        await connection.execute(
            f"UPDATE submissions SET status = $2 {', ' if legal[status] else ''}{legal[status]}"
            " WHERE tenant_id = $1 AND id = $2",
            tenant, status,
        )  # fmt: skip


def test_b23_the_statuses_above_are_all_that_the_tables_know() -> None:
    known = {
        table.name: sorted(str(item.sqltext).split("'")[1::2])
        for table in METADATA.tables.values()
        for item in table.constraints
        if isinstance(item, CheckConstraint) and str(item.name).endswith(("_status", "_state"))
    }
    assert known == {table: sorted(statuses) for table, statuses in STATUSES.items()}


async def test_b23_down_and_up_again_with_rows_of_every_status_and_no_drift(
    database: tuple[DatabaseSettings, asyncpg.Connection],
) -> None:
    settings, connection = database
    await to_thread(migrate, settings, report=silent)
    await fill(connection, "t")
    stood = await digests(connection, "t")
    await to_thread(downgrade, settings, "-1")
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == revisions()[-2]
    await to_thread(migrate, settings, report=silent)
    assert await digests(connection, "t") == stood, "what the newest revision changes keeps the rows of the one before"
    chosen = config()
    chosen.attributes.update(database_settings=settings, report=silent)
    await to_thread(command.check, chosen)


async def test_b23_every_downgrade_works_with_rows_there_and_leaves_nothing(
    database: tuple[DatabaseSettings, asyncpg.Connection],
) -> None:
    settings, connection = database
    await to_thread(migrate, settings, report=silent)
    await fill(connection, "t")
    await to_thread(downgrade, settings, "base")
    left = {row["name"] for row in await connection.fetch(LEFT)}
    assert left <= {"alembic_version", "alembic_version_pkc"}
    await to_thread(migrate, settings, report=silent)
    await fill(connection, "t")


async def test_b23_a_status_of_a_later_release_does_not_stop_an_older_reader(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        tenant = client.headers["x-test-tenant"]
        await fill(connection, "other")
        await connection.execute("ALTER TABLE invocations DROP CONSTRAINT ck_invocations_status")
        await connection.execute("ALTER TABLE invocations DROP CONSTRAINT ck_invocations_ended_when_terminal")
        await connection.execute(
            "INSERT INTO workflows (tenant_id, id) VALUES ($1, 'w')", tenant,
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)"
            " VALUES ($1, 'v', 'w', '1', 'raw:' || repeat('0', 64), 'init')", tenant,
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, digest)"
            " VALUES ($1, 'i', 'v', 'w', 'paused', now(), sha256('x'))", tenant,
        )  # fmt: skip
        for path in ("/v1/invocations/i", "/v1/invocations", "/v1/invocations/summary", "/v1/invocations/i/trace"):
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            assert "paused" in answer.text
        ended = await client.post("/v1/invocations/i/end", json={"status": "completed"})
        assert ended.status_code in (200, 409, 422), ended.text
    await connection.close()
