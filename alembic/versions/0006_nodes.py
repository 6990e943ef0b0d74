"""Node versions, node invocations and actions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "node_versions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("node_id", sa.Text(collation="C"), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=True),
        sa.Column("llm_model", sa.Text(), nullable=True),
        sa.Column("tools", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("handoffs", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("waiting_for", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("memory", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "extras", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("config_hash", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_node_versions_tenant_id_version_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_node_versions")),
        sa.UniqueConstraint(
            "tenant_id",
            "version_id",
            "node_id",
            "config_hash",
            name=op.f("uq_node_versions_tenant_id_version_id_node_id_config_hash"),
        ),
        sa.UniqueConstraint(
            "tenant_id",
            "version_id",
            "node_id",
            "revision",
            name=op.f("uq_node_versions_tenant_id_version_id_node_id_revision"),
        ),
    )
    op.create_index("ix_node_versions_created_at", "node_versions", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_node_versions_llm_model", "node_versions", ["tenant_id", "llm_model", "created_at", "id"], unique=False
    )
    op.create_index(
        "ix_node_versions_node_id", "node_versions", ["tenant_id", "node_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "node_memories",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("node_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "memory", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_node_memories_tenant_id_version_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "version_id", "node_id", name=op.f("pk_node_memories")),
    )
    op.create_table(
        "node_invocations",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("node_id", sa.Text(collation="C"), nullable=False),
        sa.Column("node_version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("attempt_no", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("output", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("large_summary", sa.Text(), nullable=True),
        sa.Column("usd_cost", sa.Numeric(precision=38, scale=18), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("files", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "extras", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("end_digest", sa.LargeBinary(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "(status = 'running') = (ended_at IS NULL)", name=op.f("ck_node_invocations_ended_when_terminal")
        ),
        sa.CheckConstraint("status IN ('running', 'completed', 'failed')", name=op.f("ck_node_invocations_status")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_node_invocations_tenant_id_invocation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "node_version_id"],
            ["node_versions.tenant_id", "node_versions.id"],
            name=op.f("fk_node_invocations_tenant_id_node_version_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "id", name=op.f("pk_node_invocations")),
        postgresql_with={"fillfactor": "85"},
    )
    op.create_index(
        "ix_node_invocations_node_id",
        "node_invocations",
        ["tenant_id", "node_id", "started_at", "invocation_id", "id"],
        unique=False,
    )
    op.create_index(
        "ix_node_invocations_order",
        "node_invocations",
        ["tenant_id", "invocation_id", "started_at", "id"],
        unique=False,
    )
    op.create_index(
        "ix_node_invocations_started_at",
        "node_invocations",
        ["tenant_id", "started_at", "invocation_id", "id"],
        unique=False,
    )
    op.create_table(
        "actions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("node_invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("input", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("output", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration_ms", sa.Numeric(precision=38, scale=18), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id", "node_invocation_id"],
            ["node_invocations.tenant_id", "node_invocations.invocation_id", "node_invocations.id"],
            name=op.f("fk_actions_tenant_id_invocation_id_node_invocation_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "node_invocation_id", "id", name=op.f("pk_actions")),
    )
    op.create_index(
        "ix_actions_position", "actions", ["tenant_id", "invocation_id", "node_invocation_id", "position"], unique=False
    )


def downgrade() -> None:
    op.drop_table("actions")
    op.drop_table("node_invocations")
    op.drop_table("node_memories")
    op.drop_table("node_versions")
