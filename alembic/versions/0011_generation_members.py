"""Who was in a generation, the checkpoints of runs, and what tells a repeat from a conflict."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:

    for table in ("evolution_runs", "generations"):
        op.add_column(table, sa.Column("digest", sa.LargeBinary(), nullable=True))
        op.add_column(table, sa.Column("end_digest", sa.LargeBinary(), nullable=True))
    op.execute('ALTER TABLE evolution_runs ALTER COLUMN status TYPE text COLLATE "C"')
    op.create_check_constraint(
        op.f("ck_evolution_runs_ended_when_terminal"), "evolution_runs", "(status = 'running') = (ended_at IS NULL)"
    )
    op.create_table(
        "generation_members",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("generation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.Text(collation="C"), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("fitness", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "generation_id"],
            ["generations.tenant_id", "generations.id"],
            name=op.f("fk_generation_members_tenant_id_generation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "version_id"],
            ["versions.tenant_id", "versions.id"],
            name=op.f("fk_generation_members_tenant_id_version_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "generation_id", "version_id", name=op.f("pk_generation_members")),
    )
    op.create_index("ix_generation_members_version_id", "generation_members", ["tenant_id", "version_id"], unique=False)
    op.create_table(
        "run_checkpoints",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("run_id", sa.Text(collation="C"), nullable=False),
        sa.Column("state", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "run_id"],
            ["evolution_runs.tenant_id", "evolution_runs.id"],
            name=op.f("fk_run_checkpoints_tenant_id_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "run_id", name=op.f("pk_run_checkpoints")),
    )


def downgrade() -> None:
    op.drop_table("run_checkpoints")
    op.drop_table("generation_members")
    op.drop_constraint(op.f("ck_evolution_runs_ended_when_terminal"), "evolution_runs", type_="check")
    op.execute('ALTER TABLE evolution_runs ALTER COLUMN status TYPE text COLLATE "default"')
    for table in ("evolution_runs", "generations"):
        op.drop_column(table, "end_digest")
        op.drop_column(table, "digest")
