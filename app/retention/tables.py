"""The rules by which what is done leaves, one for each kind, and how each was last followed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKeyConstraint, Index, Table, text

from app.db.columns import METADATA, identity, moment, revision, searchable, tenant, words

retention_rules = Table(
    "retention_rules",
    METADATA,
    tenant(),
    identity("kind"),
    # What ended longer ago leaves, unless one of the others keeps it. Null: nothing leaves by age.
    Column("max_age_days", BigInteger),
    # The latest n of each parent are kept, whatever their age. Null: none for that reason.
    Column("keep_latest", BigInteger),
    Column("keep_pinned", Boolean, nullable=False, server_default=text("true")),
    Column("keep_best", Boolean, nullable=False, server_default=text("true")),
    Column("keep_failed", Boolean, nullable=False, server_default=text("false")),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    moment("last_success_at"),
    # How many left in the run that ended last.
    searchable("last_counts"),
    words("last_error"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("max_age_days BETWEEN 0 AND 36500", name="max_age_days"),
    CheckConstraint("keep_latest BETWEEN 0 AND 1000000", name="keep_latest"),
)

# One row for each tenant that has ever set a rule: whoever changes rules holds it, and its revision is the whole's.
retention_policies = Table(
    "retention_policies",
    METADATA,
    tenant(),
    revision(),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

# What stays, whatever its age. A pin refers to nothing by a key: what is pinned may be deleted by hand all the same.
pins = Table(
    "pins",
    METADATA,
    tenant(),
    identity("kind"),
    identity(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("ix_pins_created_at", "tenant_id", "created_at", "kind", "id"),
)
