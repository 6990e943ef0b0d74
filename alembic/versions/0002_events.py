"""The outbox and the events, partitioned by time."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "outbox",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "id",
            sa.Text(collation="C"),
            server_default=sa.text("'evt_' || replace(uuidv7()::text, '-', '')"),
            nullable=False,
        ),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject_type", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(collation="C"), nullable=False),
        sa.Column("subject_parent_id", sa.Text(collation="C"), nullable=True),
        sa.Column(
            "occurred_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("data", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_outbox")),
    )
    op.create_index("ix_outbox_number", "outbox", ["number"], unique=False)
    op.create_table(
        "event_heads",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("earliest", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_event_heads_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_event_heads")),
    )
    op.create_table(
        "events",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("sequenced_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject_type", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(collation="C"), nullable=False),
        sa.Column("subject_parent_id", sa.Text(collation="C"), nullable=True),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "position", "sequenced_at", name=op.f("pk_events")),
        postgresql_partition_by="RANGE (sequenced_at)",
    )
    op.create_index("ix_events_type", "events", ["tenant_id", "type", "position"], unique=False)

    # Rows find a home before and after the partitions that the background job keeps ahead of time.
    op.execute("CREATE TABLE events_p_default PARTITION OF events DEFAULT")
    op.execute(
        sa.text(
            "INSERT INTO schema_decisions (id, revision_id, title, decision, reason) VALUES"
            " ('events-by-month', '0002', 'Events are partitioned by month from the start',"
            " 'The outbox is a small table that a sequencer empties into events, which are partitioned by month.',"
            " 'Old events leave by dropping a partition, and a position is given only after commit.')"
        )
    )


def downgrade() -> None:
    op.execute("DELETE FROM schema_decisions WHERE id = 'events-by-month'")
    op.drop_table("events")
    op.drop_table("event_heads")
    op.drop_table("outbox")
