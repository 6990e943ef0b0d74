"""Conversations: their paths, each stored once behind a number; the streams, their batches and their checkpoints."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from app.db.columns import METADATA, IdText, exact, moment, reference, revision, tenant

stream_paths = Table(
    "stream_paths",
    METADATA,
    tenant(),
    Column("number", BigInteger, Identity(always=True), primary_key=True, nullable=False),
    Column("path", IdText, nullable=False),
    UniqueConstraint("tenant_id", "path"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("octet_length(path) BETWEEN 1 AND 1024", name="path"),
)

# A conversation: whose it is, who may append to it, and the numbers of its next batch.
conversation_streams = Table(
    "conversation_streams",
    METADATA,
    tenant(),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    reference("agent_name", required=True),
    reference("instance_id", required=True),
    # Another one for each conversation that was ever under the path.
    reference("incarnation", required=True),
    Column("next_seq", BigInteger, nullable=False, server_default=text("0")),
    reference("producer_id"),
    Column("producer_epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("next_producer_sequence", BigInteger, nullable=False, server_default=text("0")),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "number"], ["stream_paths.tenant_id", "stream_paths.number"]),
    CheckConstraint("next_seq >= 0 AND producer_epoch >= 0 AND next_producer_sequence >= 0", name="counters"),
    Index("ix_conversation_streams_created_at", "tenant_id", "created_at", "incarnation"),
    Index("ix_conversation_streams_agent_name", "tenant_id", "agent_name", "created_at", "incarnation"),
    # Each append changes the row, and no index of it.
    postgresql_with={"fillfactor": "70"},
)

# The records of one append, under one offset.
conversation_batches = Table(
    "conversation_batches",
    METADATA,
    tenant(),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("producer_epoch", BigInteger, nullable=False),
    Column("producer_sequence", BigInteger, nullable=False),
    reference("submission_id"),
    reference("attempt_id"),
    Column("digest", LargeBinary, nullable=False),
    exact("records", required=True),
    Column("size_bytes", BigInteger, nullable=False),
    moment("created_at", default=True),
    UniqueConstraint(
        "tenant_id", "number", "producer_epoch", "producer_sequence", name="uq_conversation_batches_producer_sequence"
    ),
    ForeignKeyConstraint(
        ["tenant_id", "number"], ["conversation_streams.tenant_id", "conversation_streams.number"], ondelete="CASCADE"
    ),
    CheckConstraint("(submission_id IS NULL) = (attempt_id IS NULL)", name="attempt"),
    CheckConstraint("octet_length(digest) = 32", name="digest_is_sha256"),
)

# The folded state of a conversation, one for each path; the conversation need not exist.
conversation_checkpoints = Table(
    "conversation_checkpoints",
    METADATA,
    tenant(),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    reference("incarnation", required=True),
    Column("format_version", BigInteger, nullable=False),
    exact("data", required=True),
    revision(),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "number"], ["stream_paths.tenant_id", "stream_paths.number"]),
)
