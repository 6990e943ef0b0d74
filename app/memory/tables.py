"""Memory: spaces of embeddings, what is remembered, and where each thing lies in each space."""

from __future__ import annotations

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from app.db.columns import METADATA, identity, moment, reference, revision, searchable, tenant, words

memory_spaces = Table(
    "memory_spaces",
    METADATA,
    tenant(),
    identity("name"),
    # Names the partition of `memory_vectors` that holds the space; never given out twice.
    Column("number", BigInteger, Identity(always=True), nullable=False),
    words("model", required=True),
    Column("dimensions", Integer, nullable=False),
    Column("metric", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("active", Boolean, nullable=False, server_default=text("false")),
    # From the first `reembed` on, whatever is remembered is embedded for this space too.
    Column("filling", Boolean, nullable=False, server_default=text("false")),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    moment("activated_at"),
    # Whoever builds indexes makes a new one, and sets this to null.
    moment("reindex_requested_at"),
    UniqueConstraint("tenant_id", "number"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("dimensions BETWEEN 1 AND 4000", name="dimensions"),
    CheckConstraint("metric IN ('cosine', 'l2', 'inner_product')", name="metric"),
    Index("uq_memory_spaces_active", "tenant_id", unique=True, postgresql_where=text("active")),
)

memory_items = Table(
    "memory_items",
    METADATA,
    tenant(),
    identity("kind"),
    identity(),
    words("content", required=True),
    searchable("metadata", default=True),
    # What the thing is about; neither need exist.
    reference("session_id"),
    reference("invocation_id"),
    moment("expires_at"),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("kind IN ('document', 'record')", name="kind"),
    Index("ix_memory_items_created_at", "tenant_id", "kind", "created_at", "id"),
    Index("ix_memory_items_session_id", "tenant_id", "session_id", "created_at", "id"),
    Index("ix_memory_items_invocation_id", "tenant_id", "invocation_id", "created_at", "id"),
    Index("ix_memory_items_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)

# One partition for each space, `memory_vectors_<number>`, made with the space and indexed for it: its HNSW index holds
# one tenant's vectors of one size. What a search filters on is beside the vector, so that a scan of the index can leave
# out what does not match. There is no reference to `memory_items` or `memory_spaces`: it would be looked up in every
# partition of every tenant whenever an item or a space is deleted. Whoever writes a vector holds its item's row and, by
# `cairn_hold_spaces`, the tenant's spaces, so none is left behind.
memory_vectors = Table(
    "memory_vectors",
    METADATA,
    tenant(),
    Column("space_number", BigInteger, primary_key=True, autoincrement=False, nullable=False),
    identity("kind"),
    identity(),
    # Null where nobody has given or made one yet; its size is checked by the partition.
    Column("embedding", VECTOR),
    Column("lexemes", TSVECTOR, nullable=False),
    searchable("metadata", default=True),
    reference("session_id"),
    reference("invocation_id"),
    moment("expires_at"),
    postgresql_partition_by="LIST (space_number)",
)
