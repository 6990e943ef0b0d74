"""Pins, a revision for all rules of a tenant, and the order in which submissions were settled."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pins",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_pins_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "kind", "id", name=op.f("pk_pins")),
    )
    op.create_index("ix_pins_created_at", "pins", ["tenant_id", "created_at", "kind", "id"], unique=False)
    op.create_table(
        "retention_policies",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_retention_policies_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_retention_policies")),
    )
    op.create_index(
        "ix_submissions_settled_at",
        "submissions",
        ["tenant_id", "settled_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'settled'"),
    )


def downgrade() -> None:
    op.drop_index("ix_submissions_settled_at", table_name="submissions", postgresql_where=sa.text("status = 'settled'"))
    op.drop_table("retention_policies")
    op.drop_index("ix_pins_created_at", table_name="pins")
    op.drop_table("pins")
