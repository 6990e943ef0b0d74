"""Evaluations of invocations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluations",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("evaluator_id", sa.Text(collation="C"), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("rubric", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("feedback", sa.Text(), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_evaluations_tenant_id_invocation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "evaluator_id"],
            ["evaluators.tenant_id", "evaluators.id"],
            name=op.f("fk_evaluations_tenant_id_evaluator_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "id", name=op.f("pk_evaluations")),
    )
    op.create_index(
        "ix_evaluations_created_at", "evaluations", ["tenant_id", "invocation_id", "created_at", "id"], unique=False
    )
    op.create_index("ix_evaluations_evaluator_id", "evaluations", ["tenant_id", "evaluator_id"], unique=False)


def downgrade() -> None:
    op.drop_table("evaluations")
