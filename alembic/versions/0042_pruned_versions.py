"""Let a version that others descend from stay without its dsl."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    # NOT VALID: every row has a dsl and no time of pruning, so none is read.
    op.execute(
        "ALTER TABLE versions ADD CONSTRAINT ck_versions_pruned"
        " CHECK ((dsl IS NULL) = (pruned_at IS NOT NULL)) NOT VALID"
    )
    op.alter_column("versions", "dsl", nullable=True)


def downgrade() -> None:
    op.execute("UPDATE versions SET dsl = 'null', pruned_at = NULL WHERE dsl IS NULL")
    op.execute("ALTER TABLE versions DROP CONSTRAINT ck_versions_pruned")
    op.alter_column("versions", "dsl", nullable=False)
    op.drop_column("versions", "pruned_at")
