"""When a tenant's clean-up runs by itself."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Index, Integer, Table

from app.db.columns import METADATA, moment, revision, searchable, tenant

cleanup_schedules = Table(
    "cleanup_schedules",
    METADATA,
    tenant(),
    Column("every_seconds", Integer, nullable=False),
    searchable("thresholds", default=True),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    moment("due_at", default=True),
    moment("last_success_at"),
    # What the last run ended, as the answer of a clean-up on demand says it, without the ids.
    searchable("last_counts"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("every_seconds BETWEEN 60 AND 31622400", name="every_seconds"),
    Index("ix_cleanup_schedules_due_at", "due_at"),
)
