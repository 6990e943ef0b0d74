"""Pins over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.retention import pin_store
from app.retention.errors import NothingToPin, PinNotFound
from app.retention.schemas import Pin, PinList, PinPage

routes = Routes("retention")


@routes.get("/v1/pins", scope="retention:read", response_model=PinPage)
async def list_pins(call: Call, query: PinList) -> Answer:
    """What is pinned, the newest pin first."""
    return await page(call, pin_store.PINS, query)


@routes.put(
    "/v1/pins/{kind}/{pinned}", scope="retention:write", response_model=Pin, status_code=201, errors=(NothingToPin,)
)
async def put_pin(call: Call, kind: str, pinned: str) -> Answer:
    """Keep something whatever its age: an invocation, a version, an evolution run, a conversation (by its path), a
    submission, a session or a backup.

    What is pinned already answers 200. A pin holds against rules, not against a deletion that a client asks for.
    """
    return await pin_store.put(call.writer, call.tenant_id, kind, pinned)


@routes.get("/v1/pins/{kind}/{pinned}", scope="retention:read", response_model=Pin, errors=(PinNotFound,))
async def get_pin(call: Call, kind: str, pinned: str) -> Answer:
    """Whether something is pinned, and since when."""
    return await pin_store.get(call.reader, call.tenant_id, kind, pinned)


@routes.delete("/v1/pins/{kind}/{pinned}", scope="retention:write", status_code=204, errors=(PinNotFound,))
async def delete_pin(call: Call, kind: str, pinned: str) -> Answer:
    """Let the rules decide about it again."""
    return await pin_store.delete(call.writer, call.tenant_id, kind, pinned)
