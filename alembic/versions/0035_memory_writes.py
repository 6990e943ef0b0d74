"""What writes to memory stand on: a space is dropped without looking into every other, and three functions."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

# Takes the lock first and looks afterwards: each statement of a function sees what was committed before it.
HOLD = """
CREATE FUNCTION cairn_hold_spaces(of_tenant text, known text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended(of_tenant, 24306));
  RETURN known IS NOT DISTINCT FROM (
    SELECT array_agg(s.number || '@' || s.revision ORDER BY s.number) FROM memory_spaces AS s
    WHERE s.tenant_id = of_tenant);
END $$
"""
CHANGE = """
CREATE FUNCTION cairn_change_spaces(of_tenant text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(of_tenant, 24306));
  RETURN true;
END $$
"""
# Items first, then their vectors: who writes a vector holds its item, and what it wrote is seen by a later statement.
FORGET = """
CREATE FUNCTION cairn_forget(of_tenant text, of_kind text, those text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE number bigint;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended(of_tenant, 24306));
  FOR number IN SELECT s.number FROM memory_spaces AS s WHERE s.tenant_id = of_tenant LOOP
    EXECUTE format('DELETE FROM memory_vectors_%s WHERE tenant_id = $1 AND space_number = $2 AND kind = $3
                    AND id = ANY ($4)', number) USING of_tenant, number, of_kind, those;
  END LOOP;
END $$
"""
# A text of many different words is more than a tsvector holds; then its beginning is found by.
LEXEMES = """
CREATE FUNCTION cairn_lexemes(language text, content text) RETURNS tsvector LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF octet_length(content) <= 250000 THEN
    RETURN to_tsvector(CAST(language AS regconfig), content);
  END IF;
  BEGIN
    RETURN to_tsvector(CAST(language AS regconfig), content);
  EXCEPTION WHEN program_limit_exceeded THEN
    RETURN to_tsvector(CAST(language AS regconfig), left(content, 60000));
  END;
END $$
"""


def upgrade() -> None:
    # Whoever removed a space would look for its vectors in each partition of each tenant, and lock them all.
    op.drop_constraint("fk_memory_vectors_tenant_id_space_number", "memory_vectors", type_="foreignkey")
    op.drop_constraint(op.f("ck_memory_spaces_active_until_dropped"), "memory_spaces", type_="check")
    op.drop_column("memory_spaces", "dropped_at")
    for function in (HOLD, CHANGE, FORGET, LEXEMES):
        op.execute(function)


def downgrade() -> None:
    op.execute("DROP FUNCTION cairn_lexemes(text, text)")
    op.execute("DROP FUNCTION cairn_forget(text, text, text[])")
    op.execute("DROP FUNCTION cairn_change_spaces(text)")
    op.execute("DROP FUNCTION cairn_hold_spaces(text, text[])")
    op.add_column("memory_spaces", sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True))
    op.create_check_constraint(
        op.f("ck_memory_spaces_active_until_dropped"), "memory_spaces", "NOT (active AND dropped_at IS NOT NULL)"
    )
    op.create_foreign_key(
        "fk_memory_vectors_tenant_id_space_number",
        "memory_vectors",
        "memory_spaces",
        ["tenant_id", "space_number"],
        ["tenant_id", "number"],
    )
