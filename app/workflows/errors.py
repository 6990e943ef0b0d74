"""What can be wrong with a workflow."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound


class WorkflowNotFound(NotFound):
    """There is no such workflow for this tenant."""

    code, title = "workflow_not_found", "There is no such workflow"


class WorkflowConflict(Conflict):
    """The id belongs to a workflow that was created with other fields."""

    code, title = "workflow_conflict", "The id belongs to another workflow"


class WorkflowNotEmpty(Conflict):
    """The workflow has versions."""

    code, title = "workflow_not_empty", "The workflow has versions"


constraint("fk_versions_tenant_id_workflow_id", lambda: WorkflowNotFound("There is no such workflow."))
constraint("fk_invocations_tenant_id_workflow_id", lambda: WorkflowNotFound("There is no such workflow."))
