"""Workflows, versions, evolution runs and generations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PARENTS = (
    "CASE WHEN parents_unknown THEN parent1_id IS NULL AND parent2_id IS NULL"
    " WHEN operation = 'mutation' THEN parent1_id IS NOT NULL AND parent2_id IS NULL"
    " WHEN operation = 'crossover' THEN parent1_id IS NOT NULL AND parent2_id IS NOT NULL"
    " ELSE parent1_id IS NULL AND parent2_id IS NULL END"
)


def upgrade() -> None:

    op.create_table(
        "workflows",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("owner_id", sa.Text(collation="C"), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_workflows_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_workflows")),
    )
    op.create_index("ix_workflows_created_at", "workflows", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("ix_workflows_owner_id", "workflows", ["tenant_id", "owner_id", "updated_at", "id"], unique=False)
    op.create_index("ix_workflows_updated_at", "workflows", ["tenant_id", "updated_at", "id"], unique=False)
    op.create_table(
        "evolution_runs",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("goal_text", sa.Text(), nullable=True),
        sa.Column(
            "config", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("status", sa.Text(), server_default=sa.text("'running'"), nullable=False),
        sa.Column("evolution_type", sa.Text(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("owner_id", sa.Text(collation="C"), nullable=True),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "status IN ('running', 'completed', 'failed', 'cancelled', 'interrupted')",
            name=op.f("ck_evolution_runs_status"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_evolution_runs_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_evolution_runs")),
    )
    op.create_index("ix_evolution_runs_started_at", "evolution_runs", ["tenant_id", "started_at", "id"], unique=False)
    op.create_table(
        "versions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("workflow_id", sa.Text(collation="C"), nullable=False),
        sa.Column("dsl", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("dsl_hash", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("parent1_id", sa.Text(collation="C"), nullable=True),
        sa.Column("parent2_id", sa.Text(collation="C"), nullable=True),
        sa.Column("parents_unknown", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("generation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("commit_message", sa.Text(), nullable=True),
        sa.Column("iteration_budget", sa.BigInteger(), nullable=True),
        sa.Column("time_budget_seconds", sa.BigInteger(), nullable=True),
        sa.Column("input_schema", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("output_schema", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("knowledge", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            PARENTS,
            name=op.f("ck_versions_parents"),
        ),
        sa.CheckConstraint("dsl_hash ~ '^(jcs|raw):[0-9a-f]{64}$'", name=op.f("ck_versions_dsl_hash")),
        sa.CheckConstraint(
            "operation IN ('init', 'mutation', 'crossover', 'immigrant')", name=op.f("ck_versions_operation")
        ),
        sa.CheckConstraint("id NOT IN (parent1_id, parent2_id)", name=op.f("ck_versions_not_its_own_parent")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "parent1_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_versions_tenant_id_parent1_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "parent2_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_versions_tenant_id_parent2_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "workflow_id"],
            ["workflows.tenant_id", "workflows.id"],
            name=op.f("fk_versions_tenant_id_workflow_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_versions")),
    )
    op.create_index("ix_versions_created_at", "versions", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("ix_versions_dsl_hash", "versions", ["tenant_id", "dsl_hash"], unique=False)
    op.create_index(
        "ix_versions_generation_id", "versions", ["tenant_id", "generation_id", "created_at", "id"], unique=False
    )
    op.create_index("ix_versions_parent1_id", "versions", ["tenant_id", "parent1_id"], unique=False)
    op.create_index("ix_versions_parent2_id", "versions", ["tenant_id", "parent2_id"], unique=False)
    op.create_index(
        "ix_versions_workflow_id", "versions", ["tenant_id", "workflow_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "version_io",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("io", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_version_io_tenant_id_version_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "version_id", name=op.f("pk_version_io")),
    )
    op.create_table(
        "generations",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("run_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("best_version_id", sa.Text(collation="C"), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("feedback", sa.Text(), nullable=True),
        sa.Column("best_fitness", sa.Double(), nullable=True),
        sa.Column("worst_fitness", sa.Double(), nullable=True),
        sa.Column("avg_fitness", sa.Double(), nullable=True),
        sa.Column("fitness_std_dev", sa.Double(), nullable=True),
        sa.Column("evaluation_cost", sa.Numeric(precision=38, scale=18), nullable=True),
        sa.Column("evaluations_per_hour", sa.Double(), nullable=True),
        sa.Column("improvement_rate", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint("number >= 0", name=op.f("ck_generations_number")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "best_version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_generations_tenant_id_best_version_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "run_id"],
            ["evolution_runs.tenant_id", "evolution_runs.id"],
            name=op.f("fk_generations_tenant_id_run_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_generations")),
        sa.UniqueConstraint("tenant_id", "run_id", "number", name=op.f("uq_generations_tenant_id_run_id_number")),
    )
    op.create_foreign_key(
        op.f("fk_versions_tenant_id_generation_id"),
        "versions",
        "generations",
        ["tenant_id", "generation_id"],
        ["tenant_id", "id"],
    )


def downgrade() -> None:
    op.drop_constraint("fk_versions_tenant_id_generation_id", "versions", type_="foreignkey")
    op.drop_table("generations")
    op.drop_table("version_io")
    op.drop_table("versions")
    op.drop_table("evolution_runs")
    op.drop_table("workflows")
