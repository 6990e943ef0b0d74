"""Events over HTTP: pages, pages that wait, and a stream, under one path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from app.db.database import Answer
from app.errors import BadCursor, CursorExpired, invalid
from app.events import live, reads
from app.events.reads import Wanted
from app.events.schemas import EventPage, EventQuery
from app.events.store import Subject
from app.events.watching import key_of
from app.http import accepting, event
from app.http.accepting import VARY, prefers
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.live import LiveReadersFull


def documented() -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of the two forms of the answer."""
    (answer,) = event.documented().values()
    return {200: {**answer, "headers": accepting.documented("an event stream")}}


def routes_about(subjects: Iterable[Subject]) -> Routes:
    """The routes of events about these kinds of subjects."""
    routes, known = Routes("events"), tuple(subjects)

    @routes.get(
        "/v1/events",
        scope="events:read",
        response_model=EventPage,
        responses=documented(),
        errors=(BadCursor, CursorExpired, LiveReadersFull),
    )
    async def list_events(call: Call, query: EventQuery) -> Answer | Response:
        """The changes of this tenant's resources, in one order without gaps.

        Ask again with `next_cursor`, which is always there: no event is skipped and none comes twice. With
        `wait_seconds` the answer comes as soon as there is an event, and is empty after that time. A page has at most
        `limit` events, and ends once it has 16 MiB of them. A cursor older than what is kept answers 410 with the
        earliest cursor that still works.

        With `Accept: text/event-stream` the events come as server-sent events, and go on as they happen: `data` is an
        event as the list shows it, `id` the cursor after it. It starts after `Last-Event-ID`, else after `after`. What
        goes wrong later is the last event, of type `problem`.
        """
        wanted = reads.wanted(query.type, query.include, known)
        if prefers(call, event.MEDIA_TYPE):
            return _stream(call, query, wanted)
        settings = call.ground.settings
        limit, seconds = query.limit or settings.page_limit_default, query.wait_seconds or 0
        if limit > settings.page_limit_max:
            raise invalid("limit", f"must be at most {settings.page_limit_max}")
        if seconds and call.batched:
            raise invalid("wait_seconds", "must not be given inside a batch")
        after = reads.position_of(call.tenant_id, query.after)
        found = await live.page(call, wanted, after, limit, seconds)
        return Answer(200, found.body(call.tenant_id), headers=VARY)

    return routes


def _stream(call: Call, query: EventQuery, wanted: Wanted) -> Response:
    for name in ("limit", "wait_seconds"):
        if getattr(query, name) is not None:
            raise invalid(name, "must not be given for a stream, which goes on by itself")
    start = live.start_of(call.tenant_id, call.headers.get("last-event-id"), query.after)
    answer = call.ground.live.stream(
        call, key_of(call.tenant_id), lambda place: live.events(call, wanted, place), start
    )
    answer.headers.update(VARY)
    return answer
