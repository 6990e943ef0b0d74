"""Artifacts in the object store, what refers to them, and contexts of invocations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'uploading'"), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("part_bytes", sa.Integer(), nullable=False),
        sa.Column("part_digests", sa.LargeBinary(), nullable=False),
        sa.Column(
            "touched_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "changed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "state IN ('uploading', 'live', 'marked', 'deleting', 'gone')", name=op.f("ck_artifacts_state")
        ),
        sa.CheckConstraint("generation > 0", name=op.f("ck_artifacts_generation")),
        sa.CheckConstraint("octet_length(hash) = 32", name=op.f("ck_artifacts_hash")),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_artifacts_size_bytes")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_artifacts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "hash", name=op.f("pk_artifacts")),
    )
    op.create_index("ix_artifacts_created_at", "artifacts", ["tenant_id", "created_at", "hash"], unique=False)
    op.create_index("ix_artifacts_state", "artifacts", ["state", "touched_at"], unique=False)
    op.create_table(
        "artifact_references",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("node_id", sa.Text(collation="C"), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "hash"],
            ["artifacts.tenant_id", "artifacts.hash"],
            name=op.f("fk_artifact_references_tenant_id_hash"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_artifact_references_tenant_id_invocation_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "name", name=op.f("pk_artifact_references")),
    )
    op.create_index("ix_artifact_references_hash", "artifact_references", ["tenant_id", "hash"], unique=False)
    op.create_table(
        "contexts",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("scope", sa.Text(collation="C"), nullable=False),
        sa.Column("node_id", sa.Text(collation="C"), server_default=sa.text("''"), nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("summary_given", sa.Boolean(), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.Column("artifact_hash", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("(data IS NULL) <> (artifact_hash IS NULL)", name=op.f("ck_contexts_kept_once")),
        sa.CheckConstraint("octet_length(digest) = 32", name=op.f("ck_contexts_digest")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "artifact_hash"],
            ["artifacts.tenant_id", "artifacts.hash"],
            name=op.f("fk_contexts_tenant_id_artifact_hash"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_contexts_tenant_id_invocation_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "scope", "node_id", "key", name=op.f("pk_contexts")),
    )
    op.create_index("ix_contexts_artifact_hash", "contexts", ["tenant_id", "artifact_hash"], unique=False)
    op.create_index(
        "ix_contexts_expires_at",
        "contexts",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_table("contexts")
    op.drop_table("artifact_references")
    op.drop_table("artifacts")
