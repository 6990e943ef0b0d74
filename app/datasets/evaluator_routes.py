"""Evaluators over HTTP."""

from __future__ import annotations

from app.datasets import evaluator_store
from app.datasets.errors import EvaluatorConflict, EvaluatorInUse, EvaluatorNotFound
from app.datasets.evaluator_schemas import Evaluator, EvaluatorChange, EvaluatorList, EvaluatorPage, NewEvaluator
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page

routes = Routes("evaluators")


@routes.post(
    "/v1/evaluators", scope="evaluators:write", response_model=Evaluator, status_code=201, errors=(EvaluatorConflict,)
)
async def create_evaluator(call: Call, body: NewEvaluator) -> Answer:
    """Create an evaluator. The same id with the same fields answers 200 with the evaluator as it now is."""
    return await evaluator_store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/evaluators", scope="evaluators:read", response_model=EvaluatorPage)
async def list_evaluators(call: Call, query: EvaluatorList) -> Answer:
    """The evaluators of this tenant, the newest first."""
    return await page(call, evaluator_store.EVALUATORS, query)


@routes.get(
    "/v1/evaluators/{evaluator_id}", scope="evaluators:read", response_model=Evaluator, errors=(EvaluatorNotFound,)
)
async def get_evaluator(call: Call, evaluator_id: str) -> Answer:
    """An evaluator."""
    return await evaluator_store.get(call.reader, call.tenant_id, evaluator_id)


@routes.patch(
    "/v1/evaluators/{evaluator_id}", scope="evaluators:write", response_model=Evaluator, errors=(EvaluatorNotFound,)
)
async def patch_evaluator(call: Call, evaluator_id: str, body: EvaluatorChange) -> Answer:
    """Update the fields given; `If-Match` refuses when the evaluator has changed meanwhile."""
    return await evaluator_store.patch(call.writer, call.tenant_id, evaluator_id, body.given(), call.if_match)


@routes.delete(
    "/v1/evaluators/{evaluator_id}",
    scope="evaluators:write",
    status_code=204,
    errors=(EvaluatorNotFound, EvaluatorInUse),
)
async def delete_evaluator(call: Call, evaluator_id: str) -> Answer:
    """Delete an evaluator, unless something that stays refers to it."""
    return await evaluator_store.delete(call.writer, call.tenant_id, evaluator_id, call.if_match)
