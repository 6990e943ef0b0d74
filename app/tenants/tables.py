"""Tenants, their limits, and the keys that act for them."""

from __future__ import annotations

from sqlalchemy import ARRAY, CheckConstraint, Column, ForeignKeyConstraint, Index, LargeBinary, Table, Text, text

from app.db.columns import METADATA, identity, moment, revision, searchable, tenant, words

tenants = Table(
    "tenants",
    METADATA,
    tenant(),
    words("name"),
    searchable("metadata", default=True),
    searchable("limits", default=True),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    # Since then nobody acts for it, and nothing is done for it: it is on its way out.
    moment("closed_at"),
    revision(),
    CheckConstraint("tenant_id ~ '^[a-z0-9_-]{1,64}$'", name="tenant_id"),
)

api_keys = Table(
    "api_keys",
    METADATA,
    tenant(),
    identity(),
    words("name", required=True),
    Column("key_hash", LargeBinary, nullable=False),
    words("key_hint", required=True),
    Column("scopes", ARRAY(Text), nullable=False),
    moment("expires_at"),
    moment("revoked_at"),
    moment("last_used_at"),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("uq_api_keys_key_hash", "key_hash", unique=True),
    Index("ix_api_keys_created_at", "tenant_id", "created_at", "id"),
    CheckConstraint(text("octet_length(key_hash) = 32"), name="key_hash_is_sha256"),
)
