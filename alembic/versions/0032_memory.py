"""Memory: spaces of embeddings, what is remembered, and its vectors in a partition for each space."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memory_spaces",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("filling", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("activated_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("metric IN ('cosine', 'l2', 'inner_product')", name=op.f("ck_memory_spaces_metric")),
        sa.CheckConstraint(
            "NOT (active AND dropped_at IS NOT NULL)", name=op.f("ck_memory_spaces_active_until_dropped")
        ),
        sa.CheckConstraint("dimensions BETWEEN 1 AND 4000", name=op.f("ck_memory_spaces_dimensions")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_memory_spaces_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_memory_spaces")),
        sa.UniqueConstraint("tenant_id", "number", name=op.f("uq_memory_spaces_tenant_id_number")),
    )
    op.create_index(
        "uq_memory_spaces_active", "memory_spaces", ["tenant_id"], unique=True, postgresql_where=sa.text("active")
    )
    op.create_table(
        "memory_items",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("session_id", sa.Text(collation="C"), nullable=True),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("kind IN ('document', 'record')", name=op.f("ck_memory_items_kind")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_memory_items_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "kind", "id", name=op.f("pk_memory_items")),
    )
    op.create_index(
        "ix_memory_items_created_at", "memory_items", ["tenant_id", "kind", "created_at", "id"], unique=False
    )
    op.create_index(
        "ix_memory_items_expires_at",
        "memory_items",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index(
        "ix_memory_items_invocation_id",
        "memory_items",
        ["tenant_id", "invocation_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        "ix_memory_items_session_id", "memory_items", ["tenant_id", "session_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "memory_vectors",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("space_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("lexemes", postgresql.TSVECTOR(), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("session_id", sa.Text(collation="C"), nullable=True),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "space_number"],
            ["memory_spaces.tenant_id", "memory_spaces.number"],
            name=op.f("fk_memory_vectors_tenant_id_space_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "space_number", "kind", "id", name=op.f("pk_memory_vectors")),
        postgresql_partition_by="LIST (space_number)",
    )


def downgrade() -> None:
    op.drop_table("memory_vectors")
    op.drop_table("memory_items")
    op.drop_table("memory_spaces")
