"""What can be wrong with an evaluation."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict
from app.invocations.errors import InvocationNotFound, ReferenceNotFound


class EvaluationConflict(Conflict):
    """The id belongs to an evaluation of this invocation that was recorded with other fields."""

    code, title = "evaluation_conflict", "The id belongs to another evaluation"


constraint("fk_evaluations_tenant_id_invocation_id", lambda: InvocationNotFound("There is no such invocation."))
constraint(
    "fk_evaluations_tenant_id_evaluator_id",
    lambda: ReferenceNotFound("There is no evaluator that evaluator_id names.", pointer="/evaluator_id"),
)
