"""What can be wrong with an invocation."""

from __future__ import annotations

from app.datasets.errors import DatasetRecordNotFound
from app.db.integrity import constraint
from app.errors import AppError, Conflict, NotFound


class InvocationNotFound(NotFound):
    """There is no such invocation for this tenant."""

    code, title = "invocation_not_found", "There is no such invocation"


class InvocationConflict(Conflict):
    """The id belongs to an invocation that was created with other fields."""

    code, title = "invocation_conflict", "The id belongs to another invocation"


class InvocationEnded(Conflict):
    """The invocation has ended; its first terminal state stays."""

    code, title = "invocation_ended", "The invocation has ended"


class InvocationNotStarted(Conflict):
    """The invocation is queued; start it first."""

    code, title = "invocation_not_started", "The invocation has not started"


class InvocationInUse(Conflict):
    """The invocation still runs, or others descend from it."""

    code, title = "invocation_in_use", "The invocation is in use"


class ReferenceNotFound(NotFound):
    """A run, generation, evaluator or dataset record that the body names does not exist."""

    code, title = "reference_not_found", "What the body names does not exist"


def _missing(member: str, kind: type[NotFound] = ReferenceNotFound) -> AppError:
    return kind(f"What {member} names does not exist.", pointer=f"/{member}")


constraint(
    "fk_invocations_tenant_id_parent_invocation_id", lambda: _missing("parent_invocation_id", InvocationNotFound)
)
constraint("fk_invocations_tenant_id_run_id", lambda: _missing("run_id"))
constraint("fk_invocations_tenant_id_generation_id", lambda: _missing("generation_id"))
constraint("fk_invocations_tenant_id_evaluator_id", lambda: _missing("evaluator_id"))
constraint("fk_invocations_tenant_id_dataset_record_id", lambda: _missing("dataset_record_id", DatasetRecordNotFound))
for _child in ("messages", "node_invocations"):
    constraint(f"fk_{_child}_tenant_id_invocation_id", lambda: InvocationNotFound("There is no such invocation."))
