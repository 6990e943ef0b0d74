"""Workflows: what versions belong to."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, LargeBinary, Table

from app.db.columns import METADATA, identity, moment, reference, revision, searchable, tenant, words

workflows = Table(
    "workflows",
    METADATA,
    tenant(),
    identity(),
    words("name"),
    words("description"),
    reference("owner_id"),
    searchable("metadata", default=True),
    Column("digest", LargeBinary, nullable=True),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("ix_workflows_updated_at", "tenant_id", "updated_at", "id"),
    Index("ix_workflows_created_at", "tenant_id", "created_at", "id"),
    Index("ix_workflows_owner_id", "tenant_id", "owner_id", "updated_at", "id"),
)
