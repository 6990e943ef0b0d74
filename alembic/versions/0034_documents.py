"""Documents in collections, byte for byte, with the last revisions of each."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "document_collections",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("secret_paths", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("history", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("history BETWEEN 0 AND 1000", name=op.f("ck_document_collections_history")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_document_collections_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_document_collections")),
    )
    op.create_table(
        "documents",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("collection", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("body", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("indexed", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "collection"],
            ["document_collections.tenant_id", "document_collections.name"],
            name=op.f("fk_documents_tenant_id_collection"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "collection", "id", name=op.f("pk_documents")),
        sa.UniqueConstraint(
            "tenant_id", "collection", "position", name=op.f("uq_documents_tenant_id_collection_position")
        ),
    )
    op.create_index(
        "ix_documents_expires_at",
        "documents",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index(
        "ix_documents_indexed",
        "documents",
        ["indexed"],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"indexed": "jsonb_path_ops"},
    )
    op.create_table(
        "document_revisions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("collection", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "collection", "id"],
            ["documents.tenant_id", "documents.collection", "documents.id"],
            name=op.f("fk_document_revisions_tenant_id_collection_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "collection", "id", "revision", name=op.f("pk_document_revisions")),
    )


def downgrade() -> None:
    op.drop_table("document_revisions")
    op.drop_table("documents")
    op.drop_table("document_collections")
