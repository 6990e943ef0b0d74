"""Messages."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("message_seq", data_type=sa.BigInteger())))
    op.create_table(
        "messages",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("invocation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("from_node_id", sa.Text(collation="C"), nullable=True),
        sa.Column("to_node_id", sa.Text(collation="C"), nullable=True),
        sa.Column("origin_node_invocation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("target_node_invocation_id", sa.Text(collation="C"), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "invocation_id"],
            ["invocations.tenant_id", "invocations.id"],
            name=op.f("fk_messages_tenant_id_invocation_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "invocation_id", "id", name=op.f("pk_messages")),
        postgresql_with={"fillfactor": "95"},
    )
    op.create_index("ix_messages_seq", "messages", ["tenant_id", "invocation_id", "seq", "id"], unique=False)
    op.execute(
        sa.text(
            "INSERT INTO schema_decisions (id, revision_id, title, decision, reason) VALUES"
            " ('messages-in-one-table', '0007', 'Messages and node invocations are one table each, for now',"
            " 'They are not partitioned by time; if they must be, then by the time of their invocation.',"
            " 'By their own time an id is unique no more; by their invocation''s, reads lose a quarter to two fifths.')"
        )
    )


def downgrade() -> None:
    op.execute("DELETE FROM schema_decisions WHERE id = 'messages-in-one-table'")
    op.drop_table("messages")
    op.execute(sa.schema.DropSequence(sa.Sequence("message_seq")))
