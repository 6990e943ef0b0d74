"""Evolution runs over HTTP."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer
from app.evolution import store, transitions
from app.evolution.errors import (
    CheckpointNotFound,
    EvolutionRunConflict,
    EvolutionRunEnded,
    EvolutionRunNotFound,
    GenerationConflict,
)
from app.evolution.listing import sorted_by
from app.evolution.schemas import (
    Checkpoint,
    Complete,
    EvolutionRun,
    EvolutionRunPage,
    EvolutionRunSeen,
    NewRun,
    RunFields,
    RunList,
)
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.fields import Verbatim
from app.http.paging import page

routes = Routes("evolution")


@routes.post(
    "/v1/evolution-runs",
    scope="evolution:write",
    response_model=EvolutionRun,
    status_code=201,
    errors=(EvolutionRunConflict, GenerationConflict),
)
async def create_evolution_run(call: Call, body: NewRun) -> Answer:
    """Start a run; `generation` opens a generation (number 0 unless given) in the same transaction.

    The same id with the same fields answers 200 with the run as it now is. Answers to writes leave out what is derived.
    """
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/evolution-runs", scope="evolution:read", response_model=EvolutionRunPage)
async def list_evolution_runs(call: Call, query: RunList) -> Answer:
    """The runs of this tenant, the latest first, with what is derived from their generations and invocations.

    A sort by a derived value computes it for every run that matches; other sorts, for the runs of the page. What is
    derived may move between two pages, and rows with it.
    """
    return await page(call, sorted_by(query.sort), query)


@routes.get(
    "/v1/evolution-runs/{run_id}",
    scope="evolution:read",
    response_model=EvolutionRunSeen,
    errors=(EvolutionRunNotFound,),
)
async def get_evolution_run(call: Call, run_id: str) -> Answer:
    """A run, with what is derived from its generations and invocations; that does not move the ETag."""
    return await store.get(call.reader, call.tenant_id, run_id)


@routes.patch(
    "/v1/evolution-runs/{run_id}",
    scope="evolution:write",
    response_model=EvolutionRun,
    errors=(EvolutionRunNotFound,),
)
async def patch_evolution_run(call: Call, run_id: str, body: RunFields) -> Answer:
    """Update the fields given, also after the end; `If-Match` refuses when the run has changed meanwhile."""
    return await store.patch(call.writer, call.tenant_id, run_id, body.given(), call.if_match)


@routes.post(
    "/v1/evolution-runs/{run_id}/complete",
    scope="evolution:write",
    response_model=EvolutionRun,
    errors=(EvolutionRunNotFound, EvolutionRunEnded),
)
async def complete_evolution_run(call: Call, run_id: str, body: Complete) -> Answer:
    """End a run: completed, failed, cancelled or interrupted.

    The first terminal state wins; repeating it exactly answers 200. A worker learns from its next heartbeat that
    somebody else ended the run.
    """
    return await transitions.complete(call.writer, call.tenant_id, run_id, body.given(), call.if_match)


@routes.post(
    "/v1/evolution-runs/{run_id}/reopen",
    scope="evolution:write",
    response_model=EvolutionRun,
    errors=(EvolutionRunNotFound,),
)
async def reopen_evolution_run(call: Call, run_id: str) -> Answer:
    """Take an ended run up again: running, without an end. Reopening a running one changes nothing."""
    return await transitions.reopen(call.writer, call.tenant_id, run_id, call.if_match)


@routes.post(
    "/v1/evolution-runs/{run_id}/heartbeat",
    scope="evolution:write",
    response_model=EvolutionRun,
    errors=(EvolutionRunNotFound, EvolutionRunEnded),
)
async def heartbeat_evolution_run(call: Call, run_id: str) -> Answer:
    """Say that the engine lives; the ETag stays.

    Where the run was cancelled or otherwise ended meanwhile the answer is 409 with `current_status`: stop.
    """
    return await transitions.heartbeat(call.writer, call.tenant_id, run_id, call.if_match)


@routes.put(
    "/v1/evolution-runs/{run_id}/checkpoint",
    scope="evolution:write",
    response_model=Checkpoint,
    status_code=201,
    errors=(EvolutionRunNotFound,),
)
async def put_evolution_run_checkpoint(call: Call, run_id: str, body: Verbatim) -> Answer:
    """Keep the engine's state: any JSON, byte for byte; it replaces the last one. Its ETag is its own."""
    return await store.put_checkpoint(
        call.writer, call.tenant_id, run_id, body, call.if_match, may_create=call.may_create
    )


@routes.get(
    "/v1/evolution-runs/{run_id}/checkpoint",
    scope="evolution:read",
    response_model=Any,
    errors=(EvolutionRunNotFound, CheckpointNotFound),
)
async def get_evolution_run_checkpoint(call: Call, run_id: str) -> Answer:
    """The engine's state, byte for byte as it was sent."""
    return await store.checkpoint(call.reader, call.tenant_id, run_id)
