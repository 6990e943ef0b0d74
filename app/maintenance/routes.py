"""Maintenance over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.maintenance import store
from app.maintenance.errors import CleanupUnderWay, ScheduleNotFound
from app.maintenance.schemas import Cleaned, Cleanup, NewSchedule, Schedule

routes = Routes("maintenance")


@routes.post("/v1/maintenance/cleanup", scope="maintenance:write", response_model=Cleaned, errors=(CleanupUnderWay,))
async def clean_up(call: Call, body: Cleanup) -> Answer:
    """End what its worker has left: what has run for longer than its threshold since its start and last heartbeat.

    Invocations and node invocations become failed, with an end and an error that says so; the nodes of an invocation
    end with it. Evolution runs become interrupted, and their open generations with them; their notes stay. An
    interrupted generation is not a completed one, so nothing resumes from it; messages stay. All of that is one
    transaction, and a tenant has one clean-up at a time. At most 1,000 of a kind in one call; `more` says whether to
    call again.
    """
    return await store.clean_up(call.writer, call.tenant_id, dry_run=body.dry_run, seconds=body.seconds())


@routes.put("/v1/maintenance/schedule", scope="maintenance:write", response_model=Schedule, status_code=201)
async def put_schedule(call: Call, body: NewSchedule) -> Answer:
    """Let the clean-up run by itself from now on, every so many seconds. 201 when there was no schedule."""
    return await store.put_schedule(
        call.writer, call.tenant_id, body.every_seconds, body.seconds(), call.if_match, may_create=call.may_create
    )


@routes.get("/v1/maintenance/schedule", scope="maintenance:read", response_model=Schedule, errors=(ScheduleNotFound,))
async def get_schedule(call: Call) -> Answer:
    """When the clean-up runs by itself, and what it last did."""
    return await store.get_schedule(call.reader, call.tenant_id)


@routes.delete("/v1/maintenance/schedule", scope="maintenance:write", status_code=204, errors=(ScheduleNotFound,))
async def delete_schedule(call: Call) -> Answer:
    """Let the clean-up run on demand alone."""
    return await store.delete_schedule(call.writer, call.tenant_id, call.if_match)
