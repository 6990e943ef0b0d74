"""Live reads of a conversation: a page that waits, and a stream of events. Each look is one statement of its own."""

from __future__ import annotations

from collections.abc import Sequence

from app.bus.watcher import Wake
from app.conversations import reads
from app.conversations.errors import BadOffset, StreamReplaced
from app.conversations.offsets import offset_of, seq_of
from app.conversations.reads import Batches
from app.conversations.watching import Position, key_of
from app.db.database import Reader
from app.http.call import Call
from app.http.event import Event

# What a stream holds at a time for a reader that catches up; one batch always fits.
EVENTS_MAX, EVENTS_BYTES_MAX = 100, 1024 * 1024


async def page(call: Call, path: str, after: int | None, limit: int, seconds: float) -> Batches:
    """The batches after a number (None: after the head), as soon as there is one; after so many seconds none."""

    async def read(wake: Wake) -> Batches:
        nonlocal after
        found = await reads.forward(call.reader, call.tenant_id, path, after, limit)
        after = found.next_seq if after is None else after
        wake.mark = Position(path, found.incarnation, found.head)
        return found

    return await call.ground.live.poll(
        call, [key_of(call.tenant_id, path)], seconds, read, lambda found: bool(found.found)
    )


async def events(call: Call, position: Position) -> tuple[Sequence[Event], Position]:
    """The events after a position, one a batch, and the position after them. An unknown path has none, and waits.

    Raises `StreamReplaced` where the position is of another conversation than the path's, `OffsetBeyondHead`.
    """
    return await call.ground.live.together(
        (call.tenant_id, position), lambda: _events(call.reader, call.tenant_id, position)
    )


async def _events(reader: Reader, tenant_id: str, position: Position) -> tuple[Sequence[Event], Position]:
    found = await reads.forward(
        reader,
        tenant_id,
        position.path,
        position.seq,
        EVENTS_MAX,
        of_incarnation=position.incarnation,
        page_bytes_max=EVENTS_BYTES_MAX,
    )
    if position.incarnation not in (None, found.incarnation):
        raise StreamReplaced(
            "The conversation of this position was deleted; read what is there from the start.",
            incarnation=found.incarnation,
        )
    shown = [
        Event(reads.batch_json(seq, records), f"{offset_of(seq)}@{found.incarnation}") for seq, records in found.found
    ]
    if position.seq is None and found.incarnation is not None:
        # From now on: who is cut off before the first event resumes here, and not at what is the head by then.
        shown = [Event(None, f"{offset_of(found.next_seq)}@{found.incarnation}")]
    if found.incarnation is None:
        return shown, position._replace(seq=-1 if position.seq is None else position.seq)
    return shown, Position(position.path, found.incarnation, found.next_seq)


def start_of(path: str, last_event_id: str | None, after: int | None) -> Position:
    """Where a stream starts: behind the last event that a client had, or after a number. Raises `BadOffset`."""
    if last_event_id is None:
        return Position(path, None, after)
    offset, at, incarnation = last_event_id.partition("@")
    if not at or not incarnation:
        raise BadOffset("A Last-Event-ID is the id of an event of this stream: an offset, @, an incarnation.")
    return Position(path, incarnation, seq_of(offset))
