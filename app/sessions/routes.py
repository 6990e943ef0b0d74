"""Sessions over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.sessions import store
from app.sessions.errors import SessionConflict, SessionEnded, SessionNotFound
from app.sessions.schemas import NewSession, Session, SessionChange, SessionList, SessionPage

routes = Routes("sessions")


@routes.post("/v1/sessions", scope="sessions:write", response_model=Session, status_code=201, errors=(SessionConflict,))
async def create_session(call: Call, body: NewSession) -> Answer:
    """Create a session, active unless `status` says otherwise.

    The same id with the same fields answers 200 with the session as it now is.
    """
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/sessions", scope="sessions:read", response_model=SessionPage)
async def list_sessions(call: Call, query: SessionList) -> Answer:
    """The sessions of this tenant, the newest first."""
    return await page(call, store.SESSIONS, query)


@routes.get("/v1/sessions/{session_id}", scope="sessions:read", response_model=Session, errors=(SessionNotFound,))
async def get_session(call: Call, session_id: str) -> Answer:
    """A session. An open one whose `expires_at` has passed reads as `expired`; its ETag does not move by that."""
    return await store.get(call.reader, call.tenant_id, session_id)


@routes.patch(
    "/v1/sessions/{session_id}",
    scope="sessions:write",
    response_model=Session,
    errors=(SessionNotFound, SessionEnded),
)
async def patch_session(call: Call, session_id: str, body: SessionChange) -> Answer:
    """Update the fields given. What has ended or expired stays so: it may only be archived."""
    return await store.patch(call.writer, call.tenant_id, session_id, body.given(), call.if_match)


@routes.delete("/v1/sessions/{session_id}", scope="sessions:write", status_code=204, errors=(SessionNotFound,))
async def delete_session(call: Call, session_id: str) -> Answer:
    """Delete a session. Invocations that name it stay as they are."""
    return await store.delete(call.writer, call.tenant_id, session_id, call.if_match)
