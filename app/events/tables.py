"""The outbox, where a write leaves its event, and the events themselves, in the dense order of their positions."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Identity, Index, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSON

from app.db.columns import METADATA, IdText, Instant, moment, reference, tenant, words

EVENT_ID = text("'evt_' || replace(uuidv7()::text, '-', '')")

outbox = Table(
    "outbox",
    METADATA,
    tenant(),
    Column("id", IdText, primary_key=True, nullable=False, server_default=EVENT_ID),
    Column("number", BigInteger, Identity(always=True), nullable=False),
    words("type", required=True),
    words("subject_type", required=True),
    reference("subject_id", required=True),
    reference("subject_parent_id"),
    moment("occurred_at", default=True),
    Column("data", JSON, nullable=False),
    Index("ix_outbox_number", "number"),
)

event_heads = Table(
    "event_heads",
    METADATA,
    tenant(),
    Column("position", BigInteger, nullable=False),
    Column("earliest", BigInteger, nullable=False, server_default=text("1")),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

events = Table(
    "events",
    METADATA,
    Column("tenant_id", IdText, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("sequenced_at", Instant, nullable=False),
    Column("id", IdText, nullable=False),
    words("type", required=True),
    words("subject_type", required=True),
    reference("subject_id", required=True),
    reference("subject_parent_id"),
    Column("occurred_at", Instant, nullable=False),
    Column("data", JSON, nullable=False),
    PrimaryKeyConstraint("tenant_id", "position", "sequenced_at"),
    Index("ix_events_type", "tenant_id", "type", "position"),
    postgresql_partition_by="RANGE (sequenced_at)",
)
