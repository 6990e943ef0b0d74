"""Rules of retention over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.jobs.schemas import Job
from app.retention import store
from app.retention.kind import Rule
from app.retention.schemas import NewRun, Policy, Retention

routes = Routes("retention")


@routes.get("/v1/retention", scope="retention:read", response_model=Retention)
async def get_retention(call: Call) -> Answer:
    """Every kind with its rule, and how it was last followed. Without a rule nothing of a kind leaves."""
    return await store.get(call.reader, call.tenant_id)


@routes.put("/v1/retention", scope="retention:write", response_model=Retention)
async def put_retention(call: Call, body: Policy) -> Answer:
    """Set the rules of the kinds given, or with `dry_run` say how many would leave by them now, and set none.

    Only what has ended leaves, with everything that belongs to it; what something else needs stays. The rules are
    followed by themselves, and at once by `POST /v1/retention/runs`.
    """
    rules: dict[str, Rule | None] = {
        kind: None if given is None else store.rule_of(kind, given.given()) for kind, given in body.kinds.items()
    }
    act = store.try_out if body.dry_run else store.put
    return await act(call.writer, call.tenant_id, rules, call.if_match)


@routes.post("/v1/retention/runs", scope="retention:write", response_model=Job, status_code=202)
async def run_retention(call: Call, body: NewRun) -> Answer:
    """Follow the rules now, as a job in small steps; its `counts` say what left, by kind of row.

    With `dry_run` it counts what would leave. It can be cancelled; what has left by then is gone.
    """
    return await store.begin(
        call.writer, call.tenant_id, None if body.kinds is None else [*body.kinds], dry_run=body.dry_run
    )
