"""Attempt markers over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.submissions import markers
from app.submissions.transition_schemas import AttemptMarker, MarkerList, MarkerPage, MarkerQuery

routes = Routes("attempt markers")


@routes.put("/v1/attempt-markers", scope="submissions:write", response_model=AttemptMarker, status_code=201)
async def put_attempt_marker(call: Call, query: MarkerQuery) -> Answer:
    """Mark that an attempt was begun; the first instant stays. The submission need not exist."""
    return await markers.put(call.writer, call.tenant_id, query.submission_id, query.attempt_id)


@routes.delete("/v1/attempt-markers", scope="submissions:write", status_code=204)
async def delete_attempt_marker(call: Call, query: MarkerQuery) -> Answer:
    """Remove the marker of an attempt, if there is one."""
    return await markers.delete(call.writer, call.tenant_id, query.submission_id, query.attempt_id)


@routes.get("/v1/attempt-markers", scope="submissions:read", response_model=MarkerPage)
async def list_attempt_markers(call: Call, query: MarkerList) -> Answer:
    """The markers of attempts, in the order in which they were made."""
    return await page(call, markers.MARKERS, query)
