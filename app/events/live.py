"""Live reads of events: a page that waits, and a stream. Each look is one statement of its own."""

from __future__ import annotations

from collections.abc import Sequence

from app.bus.watcher import Wake
from app.events import reads
from app.events.reads import EARLIEST, NOW, Events, Wanted, cursor_of, position_of
from app.events.watching import KIND, Place, key_of
from app.http.call import Call
from app.http.event import Event

# What a stream holds at a time for a reader that catches up; one event always fits.
EVENTS_MAX, EVENTS_BYTES_MAX = 100, 1024 * 1024
# A stream that passes over so many events without showing one tells its client where it stands.
PASSED_MAX = 1000


async def page(call: Call, wanted: Wanted, after: int | None, limit: int, seconds: float) -> Events:
    """The events after a position, as soon as there is one; after so many seconds none."""

    async def read(wake: Wake) -> Events:
        nonlocal after
        found = await reads.read(call.reader, call.tenant_id, after, wanted, limit)
        after = found.reached
        wake.mark = Place(after)
        return found

    return await call.ground.live.poll(call, [key_of(call.tenant_id)], seconds, read, lambda page: bool(page.found))


async def events(call: Call, wanted: Wanted, place: Place) -> tuple[Sequence[Event], Place]:
    """The events after a place, and the place after them. Raises `BadCursor`, `CursorExpired`."""
    tenant_id = call.tenant_id
    found = await call.ground.live.together(
        (KIND, tenant_id, place.position, wanted),
        lambda: reads.read(call.reader, tenant_id, place.position, wanted, EVENTS_MAX, EVENTS_BYTES_MAX),
    )
    shown = [Event(body, cursor_of(tenant_id, position)) for position, body in found.found]
    named = found.found[-1][0] if shown else found.started if place.position == EARLIEST else place.named
    if place.position is NOW or found.reached - named >= PASSED_MAX:
        # Who is cut off before the next event resumes here: not at what is the head by then, nor far behind.
        named = found.reached
        shown.append(Event(None, cursor_of(tenant_id, named)))
    return shown, Place(found.reached, named)


def start_of(tenant_id: str, last_event_id: str | None, after: str | None) -> Place:
    """Where a stream starts: behind the last event that a client had, else after a cursor. Raises `BadCursor`."""
    position = position_of(tenant_id, after if last_event_id is None else last_event_id)
    return Place(position, position or 0)
