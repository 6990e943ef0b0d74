"""The next number of a checkpoint, taken under the lock of its invocation."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

NEXT_NUMBER = """
CREATE FUNCTION cairn_next_checkpoint(of_tenant text, of_invocation text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  -- Those who want the next number take turns. Not FOR UPDATE: the foreign keys of what else is recorded do not wait.
  PERFORM FROM invocations WHERE tenant_id = of_tenant AND id = of_invocation FOR NO KEY UPDATE;
  -- Each statement of a volatile function sees what was committed before it, so this one sees whom it waited for.
  RETURN (SELECT COALESCE(max(number), 0) + 1 FROM checkpoints
    WHERE tenant_id = of_tenant AND invocation_id = of_invocation);
END $$
"""


def upgrade() -> None:
    op.execute(NEXT_NUMBER)


def downgrade() -> None:
    op.execute("DROP FUNCTION cairn_next_checkpoint(text, text)")
