"""Submissions and the sessions they queue in; the legal fields of each state are constraints."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from app.db.columns import METADATA, IdText, Instant, exact, identity, moment, reference, revision, tenant, words

STATUSES = ("queued", "running", "terminalizing", "settled", "joining", "joined")
OUTCOMES = ("completed", "failed", "aborted")
ON_LAPSE = ("requeue", "hold")
UNSETTLED = text("status <> 'settled'")
UNREADY = text("status = 'queued' AND canonical_ready_at IS NULL")
RUNNABLE = text("status = 'queued' AND is_head AND canonical_ready_at IS NOT NULL")


def _one_of(name: str, values: tuple[str, ...]) -> str:
    return f"{name} IN ({', '.join(repr(value) for value in values)})"


# Its row is the lock of the session: admission, settlement, joins, aborts and expiry take it before any submission's.
submission_sessions = Table(
    "submission_sessions",
    METADATA,
    tenant(),
    Column("number", BigInteger, Identity(always=True), primary_key=True, nullable=False),
    Column("session_key", IdText, nullable=False),
    # How many of its submissions are not settled.
    Column("open_count", BigInteger, nullable=False, server_default=text("0")),
    moment("created_at", default=True),
    UniqueConstraint("tenant_id", "session_key"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("octet_length(session_key) BETWEEN 1 AND 1024", name="session_key"),
    CheckConstraint("open_count >= 0", name="open_count"),
    postgresql_with={"fillfactor": "70"},
)

submissions = Table(
    "submissions",
    METADATA,
    tenant(),
    identity(),
    # Taken under the session's lock, so within a session the order of sequences is the order of commits.
    Column("sequence", BigInteger, Identity(always=True), nullable=False),
    Column("session_number", BigInteger, nullable=False),
    Column("kind", IdText, nullable=False),
    reference("agent", required=True),
    reference("instance_id", required=True),
    exact("input", required=True),
    Column("digest", LargeBinary, nullable=False),
    Column("status", IdText, nullable=False, server_default=text("'queued'")),
    # The oldest of its session that is not settled; settlement hands it on.
    Column("is_head", Boolean, nullable=False, server_default=text("false")),
    moment("accepted_at", default=True),
    moment("canonical_ready_at"),
    reference("attempt_id"),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("max_attempts", Integer, nullable=False, server_default=text("10")),
    Column("timeout_seconds", Integer, nullable=False, server_default=text("3600")),
    moment("timeout_at"),
    reference("owner_id"),
    # What the caller was told, and when the lease lapses by this database's clock.
    moment("lease_expires_at"),
    moment("lease_lapses_at"),
    moment("input_applied_at"),
    moment("abort_requested_at"),
    moment("recovery_requested_at"),
    moment("started_at"),
    reference("joined_into"),
    reference("settlement_record_id"),
    exact("settlement_record"),
    Column("settlement_outcome", IdText),
    words("settlement_error"),
    moment("settled_at"),
    Column("outcome", IdText),
    words("error"),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    moment("not_before"),
    Column(
        "due_at",
        Instant,
        Computed("COALESCE(not_before, '-infinity'::timestamptz)", persisted=True),
        nullable=False,
    ),
    Column("on_lapse", IdText, nullable=False, server_default=text("'requeue'")),
    # Part of a key, so that a write under the attempt (FOR KEY SHARE) lets renewals pass and makes its end wait.
    Column(
        "open_attempt_id",
        IdText,
        Computed("CASE WHEN status IN ('running', 'terminalizing') THEN attempt_id END", persisted=True),
    ),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    UniqueConstraint("tenant_id", "sequence"),
    UniqueConstraint("tenant_id", "id", "open_attempt_id", name="uq_submissions_open_attempt_id"),
    ForeignKeyConstraint(
        ["tenant_id", "session_number"], ["submission_sessions.tenant_id", "submission_sessions.number"]
    ),
    CheckConstraint(_one_of("status", STATUSES), name="status"),
    CheckConstraint(_one_of("outcome", OUTCOMES), name="outcome"),
    CheckConstraint(_one_of("on_lapse", ON_LAPSE), name="on_lapse"),
    CheckConstraint("attempt_count >= 0 AND max_attempts >= 1 AND timeout_seconds >= 1", name="budget"),
    # So no claim has to look: what comes back with no attempt left is settled.
    CheckConstraint("status <> 'queued' OR on_lapse = 'hold' OR attempt_count < max_attempts", name="attempts_left"),
    CheckConstraint("(status = 'settled') = (settled_at IS NOT NULL AND outcome IS NOT NULL)", name="settled"),
    CheckConstraint("status = 'settled' OR (settled_at IS NULL AND outcome IS NULL)", name="unsettled"),
    CheckConstraint("NOT is_head OR status IN ('queued', 'running', 'terminalizing')", name="head"),
    CheckConstraint(
        "status <> 'queued' OR num_nonnulls(attempt_id, owner_id, lease_expires_at, lease_lapses_at, input_applied_at,"
        " started_at, joined_into, recovery_requested_at, settlement_record_id) = 0",
        name="queued",
    ),
    CheckConstraint(
        "status <> 'running' OR (num_nulls(attempt_id, started_at) = 0 AND is_head"
        " AND num_nonnulls(joined_into, settlement_record_id) = 0)",
        name="running",
    ),
    CheckConstraint(
        "status <> 'terminalizing' OR num_nulls(attempt_id, started_at, settlement_record_id, settlement_record,"
        " settlement_outcome) = 0",
        name="terminalizing",
    ),
    CheckConstraint(
        "status NOT IN ('joining', 'joined') OR (joined_into IS NOT NULL AND canonical_ready_at IS NOT NULL"
        " AND num_nonnulls(attempt_id, owner_id, lease_expires_at, started_at, settlement_record_id) = 0)",
        name="joined_into",
    ),
    CheckConstraint(
        "(status <> 'joining' OR input_applied_at IS NULL) AND (status <> 'joined' OR input_applied_at IS NOT NULL)",
        name="joined",
    ),
    Index("uq_submissions_head", "tenant_id", "session_number", unique=True, postgresql_where=text("is_head")),
    Index(
        "uq_submissions_running",
        "tenant_id",
        "session_number",
        unique=True,
        postgresql_where=text("status = 'running'"),
    ),
    Index("ix_submissions_session", "tenant_id", "session_number", "sequence"),
    Index("ix_submissions_unsettled", "tenant_id", "session_number", "sequence", postgresql_where=UNSETTLED),
    Index("ix_submissions_status", "tenant_id", "status", "sequence", postgresql_where=UNSETTLED),
    Index("ix_submissions_agent", "tenant_id", "agent", "sequence"),
    Index("ix_submissions_open", "tenant_id", "sequence", postgresql_where=UNSETTLED),
    Index("ix_submissions_unready", "tenant_id", "sequence", postgresql_where=UNREADY),
    Index("ix_submissions_heads", "tenant_id", "sequence", postgresql_where=RUNNABLE),
    Index(
        "ix_submissions_runnable",
        "tenant_id",
        text("priority DESC"),
        "sequence",
        "due_at",
        postgresql_where=RUNNABLE,
    ),
    Index(
        "ix_submissions_runnable_agent",
        "tenant_id",
        "agent",
        text("priority DESC"),
        "sequence",
        "due_at",
        postgresql_where=RUNNABLE,
    ),
    Index(
        "ix_submissions_lapses",
        "lease_lapses_at",
        postgresql_where=text("status = 'running' AND on_lapse = 'requeue'"),
    ),
    # In which order what is done may leave.
    Index("ix_submissions_settled_at", "tenant_id", "settled_at", "id", postgresql_where=text("status = 'settled'")),
    Index(
        "ix_submissions_joined_into",
        "tenant_id",
        "joined_into",
        "sequence",
        postgresql_where=text("joined_into IS NOT NULL"),
    ),
    postgresql_with={"fillfactor": "70"},
)

# What is left of a settled submission that was removed: its id admits nothing again.
submission_receipts = Table(
    "submission_receipts",
    METADATA,
    tenant(),
    identity("submission_id"),
    moment("accepted_at", default=True),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

attempt_markers = Table(
    "attempt_markers",
    METADATA,
    tenant(),
    identity("submission_id"),
    identity("attempt_id"),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("ix_attempt_markers_created_at", "tenant_id", "created_at"),
)
