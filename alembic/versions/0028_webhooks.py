"""Webhooks, their deliveries and attempts; dead letters that are announced."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "id",
            sa.Text(collation="C"),
            server_default=sa.text("'dlv_' || replace(uuidv7()::text, '-', '')"),
            nullable=False,
        ),
        sa.Column("webhook_id", sa.Text(collation="C"), nullable=False),
        sa.Column("event_id", sa.Text(collation="C"), nullable=True),
        sa.Column("event_type", sa.Text(collation="C"), nullable=False),
        sa.Column("event_position", sa.BigInteger(), nullable=True),
        sa.Column("event_sequenced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("body", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("status", sa.Text(collation="C"), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("attempt_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("round_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("dispatch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("lapses_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_status_code", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(status IN ('delivered', 'dead')) = (ended_at IS NOT NULL)", name=op.f("ck_webhook_deliveries_ended_at")
        ),
        sa.CheckConstraint(
            "(status IN ('queued', 'sending')) = (lapses_at IS NOT NULL)", name=op.f("ck_webhook_deliveries_lapses_at")
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'queued', 'sending', 'delivered', 'dead')", name=op.f("ck_webhook_deliveries_status")
        ),
        sa.CheckConstraint("body IS NOT NULL OR event_position IS NOT NULL", name=op.f("ck_webhook_deliveries_body")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_webhook_deliveries_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(
        "ix_webhook_deliveries_created_at", "webhook_deliveries", ["tenant_id", "created_at", "id"], unique=False
    )
    op.create_index(
        "ix_webhook_deliveries_lapsing",
        "webhook_deliveries",
        ["lapses_at"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )
    op.create_index(
        "ix_webhook_deliveries_pending",
        "webhook_deliveries",
        ["tenant_id", "webhook_id", "due_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_webhook_deliveries_under_way",
        "webhook_deliveries",
        ["tenant_id", "webhook_id"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )
    op.create_index(
        "ix_webhook_deliveries_webhook",
        "webhook_deliveries",
        ["tenant_id", "webhook_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "webhook_heads",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_webhook_heads_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_webhook_heads")),
    )
    op.create_table(
        "webhooks",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column(
            "event_types",
            postgresql.ARRAY(sa.Text(collation="C")),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
        ),
        sa.Column(
            "include", postgresql.ARRAY(sa.Text(collation="C")), server_default=sa.text("'{}'::text[]"), nullable=False
        ),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("previous_secret", sa.LargeBinary(), nullable=True),
        sa.Column("previous_secret_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("headers", sa.LargeBinary(), nullable=True),
        sa.Column("after_position", sa.BigInteger(), nullable=False),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.Text(collation="C"), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint(
            "(previous_secret IS NULL) = (previous_secret_until IS NULL)", name=op.f("ck_webhooks_previous_secret")
        ),
        sa.CheckConstraint("enabled = (disabled_at IS NULL)", name=op.f("ck_webhooks_disabled")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_webhooks_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_webhooks")),
    )
    op.create_index("ix_webhooks_created_at", "webhooks", ["tenant_id", "created_at", "id"], unique=False)
    op.create_table(
        "webhook_attempts",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("delivery_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "delivery_id"],
            ["webhook_deliveries.tenant_id", "webhook_deliveries.id"],
            name=op.f("fk_webhook_attempts_tenant_id_delivery_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "delivery_id", "number", name=op.f("pk_webhook_attempts")),
    )
    # A letter of a webhook is told on the bus once; those of submissions are not.
    op.add_column("dead_letters", sa.Column("announced_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_dead_letters_unannounced",
        "dead_letters",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("announced_at IS NULL AND source = 'webhook'"),
    )


def downgrade() -> None:
    op.drop_index("ix_dead_letters_unannounced", table_name="dead_letters")
    op.drop_column("dead_letters", "announced_at")
    for table in ("webhook_attempts", "webhooks", "webhook_heads", "webhook_deliveries"):
        op.drop_table(table)
