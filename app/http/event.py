"""An event of an event stream, and the bytes that it is sent as."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MEDIA_TYPE = "text/event-stream"
# A comment: says that the stream is there, and that the client is.
HEARTBEAT = b":\n\n"
# So much of an event is sent at a time: for a slow reader there is the event in memory, and no copy of what is left.
PIECE_BYTES = 256 * 1024
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class Event:
    """One event of a stream: its data as bytes, the id to resume after it, and its type where it is not `message`.

    Without data a client sees no event, and knows from then on where to resume.
    """

    data: bytes | None
    id: str | None = None
    type: str | None = None

    def pieces(self) -> Iterator[bytes]:
        """As it is sent, a piece at a time: a `data:` line for each line of the data, which a client joins again."""
        head = b"" if self.id is None else b"id: %b\n" % self.id.encode()
        if self.type is not None:
            head += b"event: %b\n" % self.type.encode()
        data = self.data
        if data is None:
            yield head + b"\n"
            return
        if b"\n" in data or b"\r" in data:
            data = b"\ndata: ".join(_LINE_ENDS.split(data))
        if len(data) <= PIECE_BYTES:
            yield b"%bdata: %b\n\n" % (head, data)
            return
        yield head + b"data: "
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]
        yield b"\n\n"


def documented() -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of an event stream, an event at a time: for a route's `responses`."""
    text = {"type": "string"}
    event = {"type": "object", "properties": {"id": text, "event": text, "data": text}, "required": ["data"]}
    return {200: {"content": {MEDIA_TYPE: {"schema": event}}}}
