"""Say of a generation that it was interrupted, rather than that it ended: nothing resumes from it."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("generations", sa.Column("interrupted_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("generations", "interrupted_at")
