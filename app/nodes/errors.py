"""What can be wrong with a node invocation or an action."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound


class NodeInvocationNotFound(NotFound):
    """There is no such node invocation in this invocation."""

    code, title = "node_invocation_not_found", "There is no such node invocation"


class NodeInvocationConflict(Conflict):
    """The id belongs to a node invocation that was started with other fields."""

    code, title = "node_invocation_conflict", "The id belongs to another node invocation"


class NodeInvocationEnded(Conflict):
    """The node invocation has ended; its first terminal state stays."""

    code, title = "node_invocation_ended", "The node invocation has ended"


class ActionConflict(Conflict):
    """An id belongs to an action that was recorded with other fields; `ids` names each, and nothing was stored."""

    code, title = "action_conflict", "The id belongs to another action"


constraint(
    "fk_actions_tenant_id_invocation_id_node_invocation_id",
    lambda: NodeInvocationNotFound("There is no such node invocation in this invocation."),
)
