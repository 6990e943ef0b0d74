"""Walks along the parents of versions."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TOO_LONG = """
CREATE FUNCTION cairn_walk_too_long(met bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- A walk that is cut short would look like a whole one.
  RAISE EXCEPTION 'a walk met % versions', met USING ERRCODE = 'CA005', CONSTRAINT = 'walk_too_long';
END $$
"""
STEPS = {
    "ancestors": """
      SELECT p.id FROM versions AS v CROSS JOIN LATERAL (VALUES (v.parent1_id), (v.parent2_id)) AS p (id)
      WHERE v.tenant_id = of_tenant AND v.id = level.id AND p.id IS NOT NULL""",
    "descendants": """
      SELECT v.id FROM versions AS v WHERE v.tenant_id = of_tenant AND v.parent1_id = level.id
      UNION ALL
      SELECT v.id FROM versions AS v WHERE v.tenant_id = of_tenant AND v.parent2_id = level.id""",
}
ARGUMENTS = "text, text, integer, bigint, bigint, integer, text"


def hidden(number: str) -> str:
    """A number in an interval that equals every other such interval: n days less 24n hours."""
    return f"make_interval(days => CAST({number} AS integer), hours => -24 * CAST({number} AS integer))"


def told(interval: str) -> str:
    """The number in such an interval."""
    return f"CAST(date_part('day', {interval}) AS integer)"


def walk(name: str, step: str) -> str:
    """A function that gives what steps lead to from a version, itself at depth 0, each once at its smallest depth.

    With `wanted` it ends with the level that brings so many beyond `(after_depth, after_id)`.
    """
    return f"""
CREATE FUNCTION cairn_{name}(
  of_tenant text, of_id text, depth_max integer, met_max bigint, wanted bigint, after_depth integer, after_id text
) RETURNS TABLE (id text, depth integer) LANGUAGE sql STABLE
-- A plan that was made when there were few versions must not read all of them for each step when there are many.
SET enable_seqscan = off AS $$
  WITH RECURSIVE walk AS (
    SELECT v.id, {hidden("0")} AS depth, {hidden("0")} AS met, {hidden("0")} AS beyond
    FROM versions AS v WHERE v.tenant_id = of_tenant AND v.id = of_id
    -- UNION drops each row that an earlier level gave. So that one is known wherever it is met again, however deep,
    -- rows of one version are equal: what a level knows is in intervals that all equal each other.
    UNION
    SELECT step.id, {hidden("level.depth + 1")}, {hidden("level.met")}, {hidden("level.beyond")}
    FROM (
      SELECT w.id, {told("w.depth")} AS depth, {told("w.met")} + count(*) OVER () AS met,
        {told("w.beyond")} + count(*) FILTER (
          WHERE ({told("w.depth")}, w.id) > (COALESCE(after_depth, 1), COALESCE(after_id, ''))) OVER () AS beyond
      FROM walk AS w
    -- OFFSET keeps the step from being joined with all versions at once.
    ) AS level CROSS JOIN LATERAL ({step}
      OFFSET 0
    ) AS step
    WHERE (depth_max IS NULL OR level.depth < depth_max) AND (wanted IS NULL OR level.beyond < wanted)
      AND (level.met <= met_max OR cairn_walk_too_long(level.met))
  )
  SELECT w.id, {told("w.depth")} FROM walk AS w
$$
"""


def upgrade() -> None:

    op.execute(TOO_LONG)
    for name, step in STEPS.items():
        op.execute(walk(name, step))


def downgrade() -> None:
    for name in STEPS:
        op.execute(f"DROP FUNCTION cairn_{name}({ARGUMENTS})")
    op.execute("DROP FUNCTION cairn_walk_too_long(bigint)")
