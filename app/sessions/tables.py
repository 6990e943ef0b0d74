"""Sessions: the spans of work that invocations may name."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Index, LargeBinary, Table

from app.db.columns import METADATA, identity, moment, reference, revision, searchable, tenant, words

sessions = Table(
    "sessions",
    METADATA,
    tenant(),
    identity(),
    reference("owner_id"),
    words("status", required=True),
    searchable("metadata", default=True),
    moment("expires_at"),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("status IN ('active', 'suspended', 'completed', 'crashed', 'archived')", name="status"),
    Index("ix_sessions_created_at", "tenant_id", "created_at", "id"),
    Index("ix_sessions_expires_at", "tenant_id", "expires_at", "id"),
    Index("ix_sessions_owner_id", "tenant_id", "owner_id", "created_at", "id"),
)
