"""Keep what the index of documents has not taken in yet short: every search reads it as a whole."""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER INDEX ix_documents_indexed SET (gin_pending_list_limit = 256)")


def downgrade() -> None:
    op.execute("ALTER INDEX ix_documents_indexed RESET (gin_pending_list_limit)")
