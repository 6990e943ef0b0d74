"""Events over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from app.db.database import Answer
from app.errors import BadCursor, CursorExpired, invalid
from app.events import store
from app.events.schemas import EventPage, EventQuery
from app.events.store import Subject
from app.http.call import Call
from app.http.endpoint import Routes


def routes_about(subjects: Iterable[Subject]) -> Routes:
    """The routes of events about these kinds of subjects."""
    routes = Routes("events")
    known = {subject.type: subject for subject in subjects}

    @routes.get("/v1/events", scope="events:read", response_model=EventPage, errors=(BadCursor, CursorExpired))
    async def list_events(call: Call, query: EventQuery) -> Answer:
        """The changes of this tenant's resources, in one order without gaps.

        Ask again with `next_cursor`, which is always there: no event is skipped and none comes twice. A cursor older
        than what is kept answers 410 with the earliest cursor that still works.
        """
        settings = call.ground.settings
        limit = query.limit or settings.page_limit_default
        if limit > settings.page_limit_max:
            raise invalid("limit", f"must be at most {settings.page_limit_max}")
        fields = store.wanted_fields(query.include, known.values())
        found = await store.read(call.reader, call.tenant_id, query.after, query.type, limit, fields, known)
        return Answer(200, found.body())

    return routes
