"""Hold the attempt that owns a submission until the write under it is committed."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

HOLD_ATTEMPT = """
CREATE FUNCTION cairn_hold_attempt(of_tenant text, of_submission text, by_attempt text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  found_status text;
  owner text;
BEGIN
  -- The lock is the key's share: renewals of the lease pass, and what ends or replaces the attempt waits for our
  -- commit. Where such an end is under way, this waits for it and then looks at what it left.
  -- The status is looked at after: as a condition it would offer the index of all that runs, to be read through.
  SELECT s.status INTO found_status FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.id = of_submission AND s.open_attempt_id = by_attempt
  FOR KEY SHARE;
  IF found_status IS DISTINCT FROM 'running' THEN
    SELECT s.open_attempt_id INTO owner FROM submissions AS s WHERE s.tenant_id = of_tenant AND s.id = of_submission;
    RAISE EXCEPTION 'the attempt does not own the submission' USING ERRCODE = 'CA006',
      DETAIL = json_build_object('submission_id', of_submission, 'attempt_id', owner)::text;
  END IF;
  RETURN true;
END $$
"""


def upgrade() -> None:
    op.execute(HOLD_ATTEMPT)


def downgrade() -> None:
    op.execute("DROP FUNCTION cairn_hold_attempt(text, text, text)")
