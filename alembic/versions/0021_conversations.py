"""Conversations, their batches and their checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

NOW = "clock_timestamp()"


def upgrade() -> None:
    op.create_table(
        "conversation_streams",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent_name", sa.Text(collation="C"), nullable=False),
        sa.Column("instance_id", sa.Text(collation="C"), nullable=False),
        sa.Column("incarnation", sa.Text(collation="C"), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("producer_id", sa.Text(collation="C"), nullable=True),
        sa.Column("producer_epoch", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_producer_sequence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text(NOW), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text(NOW), nullable=False),
        sa.CheckConstraint(
            "next_seq >= 0 AND producer_epoch >= 0 AND next_producer_sequence >= 0",
            name=op.f("ck_conversation_streams_counters"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "number"],
            ["stream_paths.tenant_id", "stream_paths.number"],
            name=op.f("fk_conversation_streams_tenant_id_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "number", name=op.f("pk_conversation_streams")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        "ix_conversation_streams_created_at", "conversation_streams", ["tenant_id", "created_at", "incarnation"]
    )
    op.create_index(
        "ix_conversation_streams_agent_name",
        "conversation_streams",
        ["tenant_id", "agent_name", "created_at", "incarnation"],
    )
    op.create_table(
        "conversation_batches",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("producer_epoch", sa.BigInteger(), nullable=False),
        sa.Column("producer_sequence", sa.BigInteger(), nullable=False),
        sa.Column("submission_id", sa.Text(collation="C"), nullable=True),
        sa.Column("attempt_id", sa.Text(collation="C"), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("records", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text(NOW), nullable=False),
        sa.CheckConstraint(
            "(submission_id IS NULL) = (attempt_id IS NULL)", name=op.f("ck_conversation_batches_attempt")
        ),
        sa.CheckConstraint("octet_length(digest) = 32", name=op.f("ck_conversation_batches_digest_is_sha256")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "number"],
            ["conversation_streams.tenant_id", "conversation_streams.number"],
            name=op.f("fk_conversation_batches_tenant_id_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "number", "seq", name=op.f("pk_conversation_batches")),
        sa.UniqueConstraint(
            "tenant_id",
            "number",
            "producer_epoch",
            "producer_sequence",
            name="uq_conversation_batches_producer_sequence",
        ),
    )
    op.create_table(
        "conversation_checkpoints",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.Text(collation="C"), nullable=False),
        sa.Column("format_version", sa.BigInteger(), nullable=False),
        sa.Column("data", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text(NOW), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "number"],
            ["stream_paths.tenant_id", "stream_paths.number"],
            name=op.f("fk_conversation_checkpoints_tenant_id_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "number", name=op.f("pk_conversation_checkpoints")),
    )


def downgrade() -> None:
    for table in ("conversation_checkpoints", "conversation_batches", "conversation_streams"):
        op.drop_table(table)
