"""A precondition that is looked at after the rows are locked: what a function has changed is undone where it fails."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
CREATE FUNCTION cairn_require_revision(stored bigint, accepted bigint[]) RETURNS boolean LANGUAGE plpgsql AS $$
-- True where the revision that was changed is accepted, as every one is by null; else an error, and nothing happened.
BEGIN
  IF accepted IS NULL OR stored = ANY (accepted) THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION 'another revision' USING ERRCODE = 'CA007', DETAIL = CAST(stored AS text);
END $$
"""
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION cairn_require_revision(bigint, bigint[])")
