"""Hold a lease until the write under its token is committed, and say how long Redis may carry it."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

HOLD_LEASE = """
CREATE FUNCTION cairn_hold_lease(of_tenant text, of_name text, by_token bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  now_token bigint;
  now_holder text;
BEGIN
  -- The lock is the key's share: renewals pass, and who takes or releases the lease, FOR UPDATE, waits for our commit.
  -- Where such a change is under way, this waits for it and then looks at what it left.
  PERFORM FROM leases AS l
  WHERE l.tenant_id = of_tenant AND l.name = of_name AND l.fencing_token = by_token AND l.holder IS NOT NULL
  FOR KEY SHARE;
  IF NOT FOUND THEN
    SELECT l.fencing_token, l.holder INTO now_token, now_holder
    FROM leases AS l WHERE l.tenant_id = of_tenant AND l.name = of_name;
    RAISE EXCEPTION 'the token does not hold the lease' USING ERRCODE = 'CA008',
      DETAIL = json_build_object('name', of_name, 'current_token', now_token, 'holder', now_holder)::text;
  END IF;
  RETURN true;
END $$
"""


def upgrade() -> None:
    op.add_column("leases", sa.Column("carried_until", sa.DateTime(timezone=True), nullable=True))
    op.execute(HOLD_LEASE)


def downgrade() -> None:
    op.execute("DROP FUNCTION cairn_hold_lease(text, text, bigint)")
    op.drop_column("leases", "carried_until")
