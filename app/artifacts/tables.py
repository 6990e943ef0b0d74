"""Artifacts: what lies in the object store under which digest, and what refers to it."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from app.db.columns import METADATA, identity, moment, reference, revision, searchable, tenant, words

# The object is `<tenant>/<hash>`, and `<tenant>/<hash>.<generation>` from the second generation on: a generation begins
# when bytes come back that were collected, so that whoever was slow to delete the old object deletes that and no other.
#
# uploading: somebody writes the object; live: it is there; marked: nothing referred to it for the grace period, and it
# is still there; deleting: the object is being deleted; gone: it is deleted, and the row only remembers its generation.
artifacts = Table(
    "artifacts",
    METADATA,
    tenant(),
    Column("hash", LargeBinary, primary_key=True, nullable=False),
    Column("generation", BigInteger, nullable=False, server_default=text("1")),
    Column("state", Text, nullable=False, server_default=text("'uploading'")),
    Column("size_bytes", BigInteger, nullable=False),
    # The SHA-256 of each part, one after the other, so that a range can be verified too.
    Column("part_bytes", Integer, nullable=False),
    Column("part_digests", LargeBinary, nullable=False),
    # When the bytes were last sent, or a reference to them was last made or taken away.
    moment("touched_at", default=True),
    # When the state last changed.
    moment("changed_at", default=True),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("octet_length(hash) = 32", name="hash"),
    CheckConstraint("state IN ('uploading', 'live', 'marked', 'deleting', 'gone')", name="state"),
    CheckConstraint("size_bytes >= 0", name="size_bytes"),
    CheckConstraint("generation > 0", name="generation"),
    Index("ix_artifacts_created_at", "tenant_id", "created_at", "hash"),
    Index("ix_artifacts_state", "state", "touched_at"),
)

artifact_references = Table(
    "artifact_references",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity("name"),
    Column("hash", LargeBinary, nullable=False),
    words("content_type"),
    searchable("metadata", default=True),
    reference("node_id"),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    ForeignKeyConstraint(["tenant_id", "hash"], ["artifacts.tenant_id", "artifacts.hash"]),
    Index("ix_artifact_references_hash", "tenant_id", "hash"),
)
