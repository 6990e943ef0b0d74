"""What can be wrong with a checkpoint."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound
from app.invocations.errors import InvocationNotFound


class CheckpointNotFound(NotFound):
    """The invocation has no such checkpoint."""

    code, title = "checkpoint_not_found", "The invocation has no such checkpoint"


class CheckpointConflict(Conflict):
    """The number belongs to another checkpoint of the invocation, or none is left."""

    code, title = "checkpoint_conflict", "The number belongs to another checkpoint"


constraint("fk_checkpoints_tenant_id_invocation_id", lambda: InvocationNotFound("There is no such invocation."))
constraint("ck_checkpoints_number", lambda: CheckpointConflict("No number is left after the last checkpoint's."))
