"""Versions whose parents are not all known keep those that are."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_FITTING = (
    "CASE WHEN operation = 'mutation' THEN parent1_id IS NOT NULL AND parent2_id IS NULL"
    " WHEN operation = 'crossover' THEN parent1_id IS NOT NULL AND parent2_id IS NOT NULL"
    " ELSE parent1_id IS NULL AND parent2_id IS NULL END"
)


def upgrade() -> None:
    op.execute("ALTER TABLE versions DROP CONSTRAINT ck_versions_parents")
    op.execute(
        "ALTER TABLE versions ADD CONSTRAINT ck_versions_parents CHECK"
        f" (CASE WHEN parents_unknown THEN parent1_id IS NOT NULL OR parent2_id IS NULL ELSE {_FITTING} END) NOT VALID"
    )
    # Every row fits: the rule only became wider. Read in a transaction of their own, after the lock on the table that
    # the change took is gone, the rows hold up no reader and no writer.
    with op.get_context().autocommit_block():
        op.execute("ALTER TABLE versions VALIDATE CONSTRAINT ck_versions_parents")
    op.execute("""
        INSERT INTO schema_decisions (id, revision_id, title, decision, reason) VALUES
        ('known-parents', '0012', 'Parents that are known stay',
         'With parents_unknown, versions keep the parents that are known, whatever the operation takes.',
         'Records from elsewhere lack parents, or have others than their operation takes; an edge that is known'
         ' is worth more than a rule that holds.')
    """)


def downgrade() -> None:
    op.execute("DELETE FROM schema_decisions WHERE id = 'known-parents'")
    op.execute("ALTER TABLE versions DROP CONSTRAINT ck_versions_parents")
    # Rows that came meanwhile may not fit; those to come shall.
    op.execute(
        "ALTER TABLE versions ADD CONSTRAINT ck_versions_parents CHECK (CASE WHEN parents_unknown"
        " THEN parent1_id IS NULL AND parent2_id IS NULL"
        " WHEN operation = 'mutation' THEN parent1_id IS NOT NULL AND parent2_id IS NULL"
        " WHEN operation = 'crossover' THEN parent1_id IS NOT NULL AND parent2_id IS NOT NULL"
        " ELSE parent1_id IS NULL AND parent2_id IS NULL END) NOT VALID"
    )
