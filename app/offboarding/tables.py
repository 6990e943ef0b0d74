"""Tenants that leave, or have left: how far it is, and the receipt."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Integer, Table, Text, text

from app.db.columns import METADATA, exact, identity, moment, reference, searchable, tenant

# While it goes on, the tenant's id; then `sha256:` and its digest, for a tenant that has left is named nowhere. So
# nothing refers to the tenant here. The operator's work, not the tenant's: it is no job, for a tenant's jobs go too.
offboardings = Table(
    "offboardings",
    METADATA,
    tenant(),
    identity(),
    Column("state", Text, nullable=False, server_default=text("'closed'")),
    # A backup that is made first, where one was asked for.
    reference("backup_id"),
    # How many rows of each table, objects, keys of the cache and messages of streams are gone by now.
    searchable("counts", default=True),
    searchable("error"),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    reference("runner_id"),
    moment("lease_expires_at"),
    moment("created_at", default=True),
    moment("ended_at"),
    # Byte for byte as it was signed.
    exact("receipt"),
    CheckConstraint("state IN ('closed', 'exporting', 'deleting', 'verifying', 'completed', 'failed')", name="state"),
    CheckConstraint("(state = 'completed') = (receipt IS NOT NULL)", name="receipt"),
    Index("ix_offboardings_created_at", "created_at", "id"),
    Index("uq_offboardings_open", "tenant_id", unique=True, postgresql_where=text("state <> 'completed'")),
)
