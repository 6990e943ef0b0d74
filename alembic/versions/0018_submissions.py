"""Submissions and their sessions, attempt markers, dead letters, format stamps, stream paths."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attempt_markers",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("submission_id", sa.Text(collation="C"), nullable=False),
        sa.Column("attempt_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_attempt_markers_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "submission_id", "attempt_id", name=op.f("pk_attempt_markers")),
    )
    op.create_index("ix_attempt_markers_created_at", "attempt_markers", ["tenant_id", "created_at"], unique=False)
    op.create_table(
        "dead_letters",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "id",
            sa.Text(collation="C"),
            server_default=sa.text("'dl_' || replace(uuidv7()::text, '-', '')"),
            nullable=False,
        ),
        sa.Column("source", sa.Text(collation="C"), nullable=False),
        sa.Column("subject", sa.Text(collation="C"), nullable=False),
        sa.Column("reason", sa.Text(collation="C"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("source IN ('submission', 'webhook')", name=op.f("ck_dead_letters_source")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_dead_letters_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_dead_letters")),
    )
    op.create_index("ix_dead_letters_created_at", "dead_letters", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("ix_dead_letters_source", "dead_letters", ["tenant_id", "source", "created_at", "id"], unique=False)
    op.create_index("ix_dead_letters_subject", "dead_letters", ["tenant_id", "subject"], unique=False)
    op.create_table(
        "format_stamps",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_format_stamps_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_format_stamps")),
    )
    op.create_table(
        "stream_paths",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.CheckConstraint("octet_length(path) BETWEEN 1 AND 1024", name=op.f("ck_stream_paths_path")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_stream_paths_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "number", name=op.f("pk_stream_paths")),
        sa.UniqueConstraint("tenant_id", "path", name=op.f("uq_stream_paths_tenant_id_path")),
    )
    op.create_table(
        "submission_receipts",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("submission_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "accepted_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_submission_receipts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "submission_id", name=op.f("pk_submission_receipts")),
    )
    op.create_table(
        "submission_sessions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("session_key", sa.Text(collation="C"), nullable=False),
        sa.Column("open_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "octet_length(session_key) BETWEEN 1 AND 1024", name=op.f("ck_submission_sessions_session_key")
        ),
        sa.CheckConstraint("open_count >= 0", name=op.f("ck_submission_sessions_open_count")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_submission_sessions_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "number", name=op.f("pk_submission_sessions")),
        sa.UniqueConstraint("tenant_id", "session_key", name=op.f("uq_submission_sessions_tenant_id_session_key")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_table(
        "submissions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("session_number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("agent", sa.Text(collation="C"), nullable=False),
        sa.Column("instance_id", sa.Text(collation="C"), nullable=False),
        sa.Column("input", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(collation="C"), server_default=sa.text("'queued'"), nullable=False),
        sa.Column("is_head", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "accepted_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("canonical_ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt_id", sa.Text(collation="C"), nullable=True),
        sa.Column("attempt_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("10"), nullable=False),
        sa.Column("timeout_seconds", sa.Integer(), server_default=sa.text("3600"), nullable=False),
        sa.Column("timeout_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("owner_id", sa.Text(collation="C"), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_lapses_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("input_applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("abort_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("recovery_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("joined_into", sa.Text(collation="C"), nullable=True),
        sa.Column("settlement_record_id", sa.Text(collation="C"), nullable=True),
        sa.Column("settlement_record", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("settlement_outcome", sa.Text(collation="C"), nullable=True),
        sa.Column("settlement_error", sa.Text(), nullable=True),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(collation="C"), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            sa.Computed("COALESCE(not_before, '-infinity'::timestamptz)", persisted=True),
            nullable=False,
        ),
        sa.Column("on_lapse", sa.Text(collation="C"), server_default=sa.text("'requeue'"), nullable=False),
        sa.Column(
            "open_attempt_id",
            sa.Text(collation="C"),
            sa.Computed("CASE WHEN status IN ('running', 'terminalizing') THEN attempt_id END", persisted=True),
            nullable=True,
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "(status <> 'joining' OR input_applied_at IS NULL) AND (status <> 'joined' OR input_applied_at IS"
            " NOT NULL)",
            name=op.f("ck_submissions_joined"),
        ),
        sa.CheckConstraint(
            "(status = 'settled') = (settled_at IS NOT NULL AND outcome IS NOT NULL)",
            name=op.f("ck_submissions_settled"),
        ),
        sa.CheckConstraint(
            "NOT is_head OR status IN ('queued', 'running', 'terminalizing')", name=op.f("ck_submissions_head")
        ),
        sa.CheckConstraint("on_lapse IN ('requeue', 'hold')", name=op.f("ck_submissions_on_lapse")),
        sa.CheckConstraint("outcome IN ('completed', 'failed', 'aborted')", name=op.f("ck_submissions_outcome")),
        sa.CheckConstraint(
            "status <> 'queued' OR num_nonnulls(attempt_id, owner_id, lease_expires_at, lease_lapses_at,"
            " input_applied_at, started_at, joined_into, recovery_requested_at, settlement_record_id) = 0",
            name=op.f("ck_submissions_queued"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR (num_nulls(attempt_id, started_at) = 0 AND is_head AND"
            " num_nonnulls(joined_into, settlement_record_id) = 0)",
            name=op.f("ck_submissions_running"),
        ),
        sa.CheckConstraint(
            "status <> 'terminalizing' OR num_nulls(attempt_id, started_at, settlement_record_id,"
            " settlement_record, settlement_outcome) = 0",
            name=op.f("ck_submissions_terminalizing"),
        ),
        sa.CheckConstraint(
            "status = 'settled' OR (settled_at IS NULL AND outcome IS NULL)", name=op.f("ck_submissions_unsettled")
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'terminalizing', 'settled', 'joining', 'joined')",
            name=op.f("ck_submissions_status"),
        ),
        sa.CheckConstraint(
            "status NOT IN ('joining', 'joined') OR (joined_into IS NOT NULL AND canonical_ready_at IS NOT"
            " NULL AND num_nonnulls(attempt_id, owner_id, lease_expires_at, started_at, settlement_record_id) = 0)",
            name=op.f("ck_submissions_joined_into"),
        ),
        sa.CheckConstraint(
            "attempt_count >= 0 AND max_attempts >= 1 AND timeout_seconds >= 1", name=op.f("ck_submissions_budget")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "session_number"],
            ["submission_sessions.tenant_id", "submission_sessions.number"],
            name=op.f("fk_submissions_tenant_id_session_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_submissions")),
        sa.UniqueConstraint("tenant_id", "id", "open_attempt_id", name="uq_submissions_open_attempt_id"),
        sa.UniqueConstraint("tenant_id", "sequence", name=op.f("uq_submissions_tenant_id_sequence")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index("ix_submissions_agent", "submissions", ["tenant_id", "agent", "sequence"], unique=False)
    op.create_index(
        "ix_submissions_joined_into",
        "submissions",
        ["tenant_id", "joined_into", "sequence"],
        unique=False,
        postgresql_where=sa.text("joined_into IS NOT NULL"),
    )
    op.create_index(
        "ix_submissions_lapses",
        "submissions",
        ["lease_lapses_at"],
        unique=False,
        postgresql_where=sa.text("status = 'running' AND on_lapse = 'requeue'"),
    )
    op.create_index(
        "ix_submissions_runnable",
        "submissions",
        ["tenant_id", sa.literal_column("priority DESC"), "sequence", "due_at"],
        unique=False,
        postgresql_where=sa.text("status = 'queued' AND is_head AND canonical_ready_at IS NOT NULL"),
    )
    op.create_index(
        "ix_submissions_runnable_agent",
        "submissions",
        ["tenant_id", "agent", sa.literal_column("priority DESC"), "sequence", "due_at"],
        unique=False,
        postgresql_where=sa.text("status = 'queued' AND is_head AND canonical_ready_at IS NOT NULL"),
    )
    op.create_index("ix_submissions_session", "submissions", ["tenant_id", "session_number", "sequence"], unique=False)
    op.create_index(
        "ix_submissions_status",
        "submissions",
        ["tenant_id", "status", "sequence"],
        unique=False,
        postgresql_where=sa.text("status <> 'settled'"),
    )
    op.create_index(
        "ix_submissions_unsettled",
        "submissions",
        ["tenant_id", "session_number", "sequence"],
        unique=False,
        postgresql_where=sa.text("status <> 'settled'"),
    )
    op.create_index(
        "uq_submissions_head",
        "submissions",
        ["tenant_id", "session_number"],
        unique=True,
        postgresql_where=sa.text("is_head"),
    )
    op.create_index(
        "uq_submissions_running",
        "submissions",
        ["tenant_id", "session_number"],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )


def downgrade() -> None:
    for table in (
        "submissions",
        "submission_sessions",
        "submission_receipts",
        "attempt_markers",
        "dead_letters",
        "format_stamps",
        "stream_paths",
    ):
        op.drop_table(table)
