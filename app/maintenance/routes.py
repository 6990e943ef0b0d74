"""Maintenance over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.maintenance import store
from app.maintenance.schemas import Cleaned, Cleanup

routes = Routes("maintenance")


@routes.post("/v1/maintenance/cleanup", scope="maintenance:write", response_model=Cleaned)
async def clean_up(call: Call, body: Cleanup) -> Answer:
    """End what its worker has left: what has run for longer than its threshold since its start and last heartbeat.

    Invocations and node invocations become failed, with an end and an error that says so; evolution runs become
    interrupted, and their notes stay. Generations stay open, so that nothing resumes from one that nobody completed;
    messages stay. At most 1,000 of a kind in one call; `more` says whether to call again. Calls at once do not meet.
    """
    given = body.given()
    return await store.clean_up(
        call.writer, call.tenant_id, dry_run=body.dry_run, thresholds=given.get("thresholds") or {}
    )
