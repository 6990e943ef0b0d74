"""Let rules for versions keep the best of each generation, as they did when that could not be chosen."""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A switch that meant nothing for its kind was kept as false.
    op.execute("UPDATE retention_rules SET keep_best = true WHERE kind = 'versions' AND NOT keep_best")


def downgrade() -> None:
    """Before, the best of each generation was kept whatever the rule said."""
