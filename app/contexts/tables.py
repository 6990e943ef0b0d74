"""Contexts: data, summary and metadata of a key, as one row; large data lies in the object store."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    text,
)

from app.db.columns import METADATA, IdText, identity, moment, revision, searchable, tenant, words

contexts = Table(
    "contexts",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity("scope"),
    # Empty where the key belongs to no node.
    Column("node_id", IdText, primary_key=True, nullable=False, server_default=text("''")),
    identity("key"),
    words("summary", required=True),
    # Whether the client gave the summary; otherwise it is an excerpt.
    Column("summary_given", Boolean, nullable=False),
    searchable("metadata", default=True),
    words("content_type", required=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("data", LargeBinary),
    Column("artifact_hash", LargeBinary),
    moment("expires_at"),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    ForeignKeyConstraint(["tenant_id", "artifact_hash"], ["artifacts.tenant_id", "artifacts.hash"]),
    CheckConstraint("(data IS NULL) <> (artifact_hash IS NULL)", name="kept_once"),
    CheckConstraint("octet_length(digest) = 32", name="digest"),
    Index("ix_contexts_artifact_hash", "tenant_id", "artifact_hash"),
    Index("ix_contexts_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)
