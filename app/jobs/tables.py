"""Jobs: long work that a client asked for, resumable, with progress."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Index, Table, Text, text

from app.db.columns import METADATA, identity, moment, reference, searchable, tenant, words

jobs = Table(
    "jobs",
    METADATA,
    tenant(),
    identity(),
    words("kind", required=True),
    Column("state", Text, nullable=False, server_default=text("'queued'")),
    searchable("arguments", default=True),
    searchable("resume_from"),
    Column("progress_done", BigInteger, nullable=False, server_default=text("0")),
    Column("progress_total", BigInteger),
    searchable("counts", default=True),
    searchable("report"),
    searchable("error"),
    Column("attempt_count", BigInteger, nullable=False, server_default=text("0")),
    reference("runner_id"),
    moment("lease_expires_at"),
    moment("cancel_requested_at"),
    moment("created_at", default=True),
    moment("started_at"),
    moment("ended_at"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("state IN ('queued', 'running', 'completed', 'failed', 'cancelled')", name="state"),
    CheckConstraint("(state IN ('queued', 'running')) = (ended_at IS NULL)", name="ended_when_terminal"),
    Index("ix_jobs_created_at", "tenant_id", "created_at", "id"),
    Index("ix_jobs_open", "state", "created_at", postgresql_where=text("state IN ('queued', 'running')")),
)
