"""Who queues has an attempt left, so that no claim has to look; and the views of the queue read in order."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


VIEWS = {
    "ix_submissions_open": "status <> 'settled'",
    "ix_submissions_unready": "status = 'queued' AND canonical_ready_at IS NULL",
    "ix_submissions_heads": "status = 'queued' AND is_head AND canonical_ready_at IS NOT NULL",
}


def upgrade() -> None:
    op.create_check_constraint(
        op.f("ck_submissions_attempts_left"),
        "submissions",
        "status <> 'queued' OR on_lapse = 'hold' OR attempt_count < max_attempts",
    )
    for name, which in VIEWS.items():
        op.create_index(name, "submissions", ["tenant_id", "sequence"], unique=False, postgresql_where=sa.text(which))


def downgrade() -> None:
    for name in VIEWS:
        op.drop_index(name, "submissions")
    op.drop_constraint(op.f("ck_submissions_attempts_left"), "submissions")
