"""What can be wrong with a context."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound
from app.invocations.errors import InvocationNotFound


class ContextNotFound(NotFound):
    """The invocation has no such context, or it has expired."""

    code, title = "context_not_found", "The invocation has no such context"


class ContextConflict(Conflict):
    """What would be written to is there already, and `overwrite` was not asked for; it stays as it is."""

    code, title = "context_conflict", "The place is taken by another context"


constraint("fk_contexts_tenant_id_invocation_id", lambda: InvocationNotFound("There is no such invocation."))
