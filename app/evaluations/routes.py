"""Evaluations over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.evaluations import store
from app.evaluations.errors import EvaluationConflict
from app.evaluations.schemas import Evaluation, EvaluationList, EvaluationPage, NewEvaluation
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound, ReferenceNotFound

routes = Routes("evaluations")


@routes.post(
    "/v1/invocations/{invocation_id}/evaluations",
    scope="evaluations:write",
    response_model=Evaluation,
    status_code=201,
    errors=(InvocationNotFound, ReferenceNotFound, EvaluationConflict),
)
async def record_evaluation(call: Call, invocation_id: str, body: NewEvaluation) -> Answer:
    """Record what an evaluator says of an invocation, whatever its status; its own scores stay as they are.

    The same id with the same fields answers 200 with the evaluation; with others it is 409 `evaluation_conflict`.
    """
    return await store.record(call.writer, call.tenant_id, invocation_id, body.given())


@routes.get(
    "/v1/invocations/{invocation_id}/evaluations",
    scope="evaluations:read",
    response_model=EvaluationPage,
    errors=(InvocationNotFound,),
)
async def list_evaluations(call: Call, invocation_id: str, query: EvaluationList) -> Answer:
    """The evaluations of an invocation, in the order in which they were recorded."""
    return await page(
        call,
        store.EVALUATIONS,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )
