"""Who queues has an attempt left, so that no claim has to look."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_check_constraint(
        op.f("ck_submissions_attempts_left"),
        "submissions",
        "status <> 'queued' OR on_lapse = 'hold' OR attempt_count < max_attempts",
    )


def downgrade() -> None:
    op.drop_constraint(op.f("ck_submissions_attempts_left"), "submissions")
