"""Indexes by which the deletion of a version and its nodes finds what refers to them."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INDEXES = {
    "ix_node_invocations_node_version_id": ("node_invocations", "node_version_id", None),
    "ix_generations_best_version_id": ("generations", "best_version_id", "best_version_id IS NOT NULL"),
}


def upgrade() -> None:
    # Concurrently, since nodes are recorded while these are built; what a build that is cut off leaves is rebuilt.
    with op.get_context().autocommit_block():
        for name, (table, column, where) in INDEXES.items():
            op.create_index(
                name,
                table,
                ["tenant_id", column],
                if_not_exists=True,
                postgresql_concurrently=True,
                postgresql_where=None if where is None else sa.text(where),
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name, (table, _, _) in INDEXES.items():
            op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
