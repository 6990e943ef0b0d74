"""Webhooks, how far their events have been handed out, their deliveries and the attempts at each."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from app.db.columns import (
    EMPTY_LIST,
    METADATA,
    IdText,
    Instant,
    exact,
    identity,
    moment,
    reference,
    revision,
    tenant,
    words,
)

STATUSES = ("pending", "queued", "sending", "delivered", "dead")
DELIVERY_ID = text("'dlv_' || replace(uuidv7()::text, '-', '')")
TRUE = text("true")
ZERO = text("0")

webhooks = Table(
    "webhooks",
    METADATA,
    tenant(),
    identity(),
    words("url", required=True),
    # None of them stands for all.
    Column("event_types", ARRAY(IdText), nullable=False, server_default=EMPTY_LIST),
    Column("include", ARRAY(IdText), nullable=False, server_default=EMPTY_LIST),
    words("description"),
    Column("enabled", Boolean, nullable=False, server_default=TRUE),
    # Sealed with a key of the settings: the signing secret, the one before it while both sign, the custom headers.
    Column("secret", LargeBinary, nullable=False),
    Column("previous_secret", LargeBinary),
    moment("previous_secret_until"),
    Column("headers", LargeBinary),
    # What is shown of the headers.
    Column("header_names", ARRAY(IdText), nullable=False, server_default=EMPTY_LIST),
    # Events up to this position are not for it: they were there before it was made, or while it was disabled.
    Column("after_position", BigInteger, nullable=False),
    # Since when no attempt has succeeded; empty while the last one did.
    moment("failing_since"),
    moment("disabled_at"),
    Column("disabled_reason", IdText),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    revision(),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("enabled = (disabled_at IS NULL)", name="disabled"),
    CheckConstraint("(previous_secret IS NULL) = (previous_secret_until IS NULL)", name="previous_secret"),
    Index("ix_webhooks_created_at", "tenant_id", "created_at", "id"),
)

# How far a tenant's events have become deliveries. Its row is there from the tenant's first webhook on.
webhook_heads = Table(
    "webhook_heads",
    METADATA,
    tenant(),
    Column("position", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

# A webhook may be gone while its deliveries stay, so none of them refers to it by a key.
webhook_deliveries = Table(
    "webhook_deliveries",
    METADATA,
    tenant(),
    Column("id", IdText, primary_key=True, nullable=False, server_default=DELIVERY_ID),
    reference("webhook_id", required=True),
    # The event that it tells of; empty for a test.
    reference("event_id"),
    Column("event_type", IdText, nullable=False),
    Column("event_position", BigInteger),
    Column("event_sequenced_at", Instant),
    # What is sent, where the event alone does not say it: with included fields, as a test, or once it was given up.
    exact("body"),
    Column("status", IdText, nullable=False, server_default=text("'pending'")),
    # Attempts begun, and those of them in the present round: a replay begins a new round of the schedule.
    Column("attempt_count", Integer, nullable=False, server_default=ZERO),
    Column("round_count", Integer, nullable=False, server_default=ZERO),
    # Hand-outs to the queue: with the id it names a message, so that a second one is no duplicate of the first.
    Column("dispatch", Integer, nullable=False, server_default=ZERO),
    moment("due_at", default=True),
    # When a hand-out, or an attempt, of which nothing more was heard counts as lost.
    moment("lapses_at"),
    Column("last_status_code", Integer),
    words("last_error"),
    moment("created_at", default=True),
    moment("ended_at"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("status IN ('pending', 'queued', 'sending', 'delivered', 'dead')", name="status"),
    CheckConstraint("(status IN ('queued', 'sending')) = (lapses_at IS NOT NULL)", name="lapses_at"),
    CheckConstraint("(status IN ('delivered', 'dead')) = (ended_at IS NOT NULL)", name="ended_at"),
    CheckConstraint("body IS NOT NULL OR event_position IS NOT NULL", name="body"),
    Index("ix_webhook_deliveries_created_at", "tenant_id", "created_at", "id"),
    Index("ix_webhook_deliveries_webhook", "tenant_id", "webhook_id", "created_at", "id"),
    Index(
        "ix_webhook_deliveries_pending",
        "tenant_id",
        "webhook_id",
        "due_at",
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "ix_webhook_deliveries_under_way",
        "tenant_id",
        "webhook_id",
        postgresql_where=text("status IN ('queued', 'sending')"),
    ),
    Index("ix_webhook_deliveries_lapsing", "lapses_at", postgresql_where=text("status IN ('queued', 'sending')")),
)

webhook_attempts = Table(
    "webhook_attempts",
    METADATA,
    tenant(),
    identity("delivery_id"),
    Column("number", Integer, primary_key=True, nullable=False, autoincrement=False),
    moment("started_at", default=True),
    Column("duration_ms", Integer),
    Column("status_code", Integer),
    words("error"),
    # The first part of the answer's body, as text without control characters.
    words("response"),
    ForeignKeyConstraint(
        ["tenant_id", "delivery_id"], ["webhook_deliveries.tenant_id", "webhook_deliveries.id"], ondelete="CASCADE"
    ),
)
