"""Sessions and checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("owner_id", sa.Text(collation="C"), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "status IN ('active', 'suspended', 'completed', 'crashed', 'archived')", name=op.f("ck_sessions_status")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_sessions_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_created_at", "sessions", ["tenant_id", "created_at", "id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["tenant_id", "expires_at", "id"])
    op.create_index("ix_sessions_owner_id", "sessions", ["tenant_id", "owner_id", "created_at", "id"])
    op.create_table(
        "checkpoints",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node_id", sa.Text(collation="C"), nullable=True),
        sa.Column("state", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("number BETWEEN 0 AND 9007199254740991", name=op.f("ck_checkpoints_number")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_checkpoints_tenant_id_invocation_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "number", name=op.f("pk_checkpoints")),
    )


def downgrade() -> None:
    op.drop_table("checkpoints")
    op.drop_table("sessions")
