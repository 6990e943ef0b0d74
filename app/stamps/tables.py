"""Format stamps: a value under a name."""

from __future__ import annotations

from sqlalchemy import ForeignKeyConstraint, Table

from app.db.columns import METADATA, identity, moment, revision, tenant, words

format_stamps = Table(
    "format_stamps",
    METADATA,
    tenant(),
    identity("name"),
    words("value", required=True),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)
