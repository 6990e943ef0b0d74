"""Backups, rules of retention, schedules of clean-ups, and tenants that leave."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "offboardings",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'closed'"), nullable=False),
        sa.Column("backup_id", sa.Text(collation="C"), nullable=True),
        sa.Column(
            "counts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("attempt_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("runner_id", sa.Text(collation="C"), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("receipt", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("(state = 'completed') = (receipt IS NOT NULL)", name=op.f("ck_offboardings_receipt")),
        sa.CheckConstraint(
            "state IN ('closed', 'exporting', 'deleting', 'verifying', 'completed', 'failed')",
            name=op.f("ck_offboardings_state"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_offboardings")),
    )
    op.create_index("ix_offboardings_created_at", "offboardings", ["created_at", "id"], unique=False)
    op.create_index(
        "uq_offboardings_open",
        "offboardings",
        ["tenant_id"],
        unique=True,
        postgresql_where=sa.text("state <> 'completed'"),
    )
    op.create_table(
        "backups",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("sections", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("artifacts", sa.Text(), nullable=False),
        sa.Column("recipients", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("job_id", sa.Text(collation="C"), nullable=False),
        sa.Column("manifest", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("artifacts IN ('bytes', 'references')", name=op.f("ck_backups_artifacts")),
        sa.CheckConstraint("digest IS NULL OR octet_length(digest) = 32", name=op.f("ck_backups_digest_is_sha256")),
        sa.CheckConstraint(
            "num_nulls(manifest, size_bytes, digest, completed_at) IN (0, 4)", name=op.f("ck_backups_completed")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_backups_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_backups")),
    )
    op.create_index("ix_backups_created_at", "backups", ["tenant_id", "created_at", "id"], unique=False)
    op.create_table(
        "cleanup_schedules",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("every_seconds", sa.Integer(), nullable=False),
        sa.Column(
            "thresholds", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_counts", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("every_seconds BETWEEN 60 AND 31622400", name=op.f("ck_cleanup_schedules_every_seconds")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_cleanup_schedules_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_cleanup_schedules")),
    )
    op.create_index("ix_cleanup_schedules_due_at", "cleanup_schedules", ["due_at"], unique=False)
    op.create_table(
        "retention_rules",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("kind", sa.Text(collation="C"), nullable=False),
        sa.Column("max_age_days", sa.BigInteger(), nullable=True),
        sa.Column("keep_latest", sa.BigInteger(), nullable=True),
        sa.Column("keep_pinned", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("keep_best", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("keep_failed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_counts", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint("keep_latest BETWEEN 0 AND 1000000", name=op.f("ck_retention_rules_keep_latest")),
        sa.CheckConstraint("max_age_days BETWEEN 0 AND 36500", name=op.f("ck_retention_rules_max_age_days")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_retention_rules_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "kind", name=op.f("pk_retention_rules")),
    )
    op.add_column("tenants", sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("tenants", "closed_at")
    op.drop_table("retention_rules")
    op.drop_index("ix_cleanup_schedules_due_at", table_name="cleanup_schedules")
    op.drop_table("cleanup_schedules")
    op.drop_index("ix_backups_created_at", table_name="backups")
    op.drop_table("backups")
    op.drop_index("uq_offboardings_open", table_name="offboardings", postgresql_where=sa.text("state <> 'completed'"))
    op.drop_index("ix_offboardings_created_at", table_name="offboardings")
    op.drop_table("offboardings")
