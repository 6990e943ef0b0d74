"""Named leases with fencing tokens."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("holder", sa.Text(collation="C"), nullable=True),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Integer(), nullable=False),
        sa.Column(
            "expires_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "acquired_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("fencing_token > 0", name=op.f("ck_leases_fencing_token")),
        sa.CheckConstraint("lease_seconds > 0", name=op.f("ck_leases_lease_seconds")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    op.drop_table("leases")
