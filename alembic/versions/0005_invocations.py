"""Invocations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "invocations",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("workflow_id", sa.Text(collation="C"), nullable=False),
        sa.Column("parent_invocation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("run_id", sa.Text(collation="C"), nullable=True),
        sa.Column("generation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("dataset_record_id", sa.Text(collation="C"), nullable=True),
        sa.Column("evaluator_id", sa.Text(collation="C"), nullable=True),
        sa.Column("submission_id", sa.Text(collation="C"), nullable=True),
        sa.Column("session_id", sa.Text(collation="C"), nullable=True),
        sa.Column("status", sa.Text(collation="C"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("input", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("output", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("expected_output", sa.Text(), nullable=True),
        sa.Column("expected_output_type", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("actual_output", sa.Text(), nullable=True),
        sa.Column("usd_cost", sa.Numeric(precision=38, scale=18), nullable=True),
        sa.Column("fitness", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("fitness_score", sa.Double(), nullable=True),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("novelty", sa.Double(), nullable=True),
        sa.Column("feedback", sa.Text(), nullable=True),
        sa.Column("preparation", sa.Text(), nullable=True),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "extras", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "duration_seconds",
            sa.Double(),
            sa.Computed("EXTRACT(epoch FROM (ended_at - started_at))::double precision", persisted=True),
            nullable=True,
        ),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("end_digest", sa.LargeBinary(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "(status IN ('queued', 'running')) = (ended_at IS NULL)", name=op.f("ck_invocations_ended_when_terminal")
        ),
        sa.CheckConstraint("status <> 'queued' OR started_at IS NULL", name=op.f("ck_invocations_queued_not_started")),
        sa.CheckConstraint(
            "status <> 'running' OR started_at IS NOT NULL", name=op.f("ck_invocations_running_is_started")
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'completed', 'failed', 'cancelled', 'rolled_back')",
            name=op.f("ck_invocations_status"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "dataset_record_id"],
            ["dataset_records.tenant_id", "dataset_records.id"],
            name=op.f("fk_invocations_tenant_id_dataset_record_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "evaluator_id"],
            ["evaluators.tenant_id", "evaluators.id"],
            name=op.f("fk_invocations_tenant_id_evaluator_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "generation_id"],
            ["generations.tenant_id", "generations.id"],
            name=op.f("fk_invocations_tenant_id_generation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "parent_invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_invocations_tenant_id_parent_invocation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "run_id"],
            ["evolution_runs.tenant_id", "evolution_runs.id"],
            name=op.f("fk_invocations_tenant_id_run_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_invocations_tenant_id_version_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "workflow_id"],
            ["workflows.tenant_id", "workflows.id"],
            name=op.f("fk_invocations_tenant_id_workflow_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_invocations")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_invocations_accuracy", "invocations", ["tenant_id", "accuracy", "id"], unique=False)
    op.create_index("ix_invocations_duration", "invocations", ["tenant_id", "duration_seconds", "id"], unique=False)
    op.create_index("ix_invocations_ended_at", "invocations", ["tenant_id", "ended_at", "id"], unique=False)
    op.create_index("ix_invocations_fitness_score", "invocations", ["tenant_id", "fitness_score", "id"], unique=False)
    op.create_index(
        "ix_invocations_generation_id", "invocations", ["tenant_id", "generation_id", "started_at", "id"], unique=False
    )
    op.create_index("ix_invocations_parent", "invocations", ["tenant_id", "parent_invocation_id"], unique=False)
    op.create_index("ix_invocations_run_id", "invocations", ["tenant_id", "run_id", "started_at", "id"], unique=False)
    op.create_index(
        "ix_invocations_session_id", "invocations", ["tenant_id", "session_id", "started_at", "id"], unique=False
    )
    op.create_index("ix_invocations_started_at", "invocations", ["tenant_id", "started_at", "id"], unique=False)
    op.create_index("ix_invocations_status", "invocations", ["tenant_id", "status", "started_at", "id"], unique=False)
    op.create_index("ix_invocations_status_id", "invocations", ["tenant_id", "status", "id"], unique=False)
    op.create_index("ix_invocations_usd_cost", "invocations", ["tenant_id", "usd_cost", "id"], unique=False)
    op.create_index(
        "ix_invocations_version_id", "invocations", ["tenant_id", "version_id", "started_at", "id"], unique=False
    )
    op.create_index(
        "ix_invocations_workflow_id", "invocations", ["tenant_id", "workflow_id", "started_at", "id"], unique=False
    )


def downgrade() -> None:
    op.drop_table("invocations")
