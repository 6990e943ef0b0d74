"""Documents: collections with their rules, bodies byte for byte, and the last revisions of each."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from app.db.columns import EMPTY_LIST, METADATA, exact, identity, moment, revision, searchable, tenant

document_collections = Table(
    "document_collections",
    METADATA,
    tenant(),
    identity("name"),
    # JSON Pointers; `*` stands for every member or element. What lies there is cut from whatever is stored.
    Column("secret_paths", ARRAY(Text), nullable=False, server_default=EMPTY_LIST),
    # How many earlier revisions of each document are kept.
    Column("history", Integer, nullable=False, server_default=text("0")),
    # Whether bodies stored before may still hold what lies at the secret paths by now: every read cuts them then.
    Column("uncut", Boolean, nullable=False, server_default=text("false")),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("history BETWEEN 0 AND 1000", name="history"),
)

documents = Table(
    "documents",
    METADATA,
    tenant(),
    identity("collection"),
    identity(),
    # The order in which documents were first stored.
    Column("position", BigInteger, Identity(always=True), nullable=False),
    exact("body", required=True),
    # What queries look in: `{"in": [<tenant>, <collection>], "body": <the body>}`, so that the index leads to no other
    # tenant's and no other collection's rows. Null where `jsonb` cannot hold the body; queries do not find it then.
    searchable("indexed"),
    moment("expires_at"),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    UniqueConstraint("tenant_id", "collection", "position"),
    ForeignKeyConstraint(["tenant_id", "collection"], ["document_collections.tenant_id", "document_collections.name"]),
    Index("ix_documents_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    Index(
        "ix_documents_indexed",
        "indexed",
        postgresql_using="gin",
        postgresql_ops={"indexed": "jsonb_path_ops"},
        # What is new waits in a list that every search reads as a whole: a short one costs writers nothing.
        postgresql_with={"gin_pending_list_limit": 256},
    ),
)

document_revisions = Table(
    "document_revisions",
    METADATA,
    tenant(),
    identity("collection"),
    identity(),
    Column("revision", BigInteger, primary_key=True, autoincrement=False, nullable=False),
    exact("body", required=True),
    moment("stored_at", default=True),
    ForeignKeyConstraint(
        ["tenant_id", "collection", "id"], ["documents.tenant_id", "documents.collection", "documents.id"]
    ),
)
