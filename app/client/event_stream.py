"""Server-sent events, read from bytes as they come: only CR, LF and both end a line, whatever the data holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """One event: its name (`message` unless said), the last id that was sent, and its data."""

    name: str
    id: str
    data: bytes


class EventReader:
    """Cuts a stream into events. Half a line waits for the rest; half an event is never given."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._ends_in_cr = False
        self._id, self._name = "", ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that end in these bytes."""
        if not chunk:
            return
        if self._ends_in_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._ends_in_cr = chunk.endswith(b"\r")
        *ended, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in ended:
            whole = b"".join([*self._pieces, line])
            self._pieces.clear()
            event = self._take(whole)
            if event is not None:
                yield event
        if rest:
            self._pieces.append(rest)

    def _take(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode()
        elif field == b"event":
            self._name = value.decode()
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name or "message", self._data
        self._name, self._data = "", []
        return ServerEvent(name, self._id, b"\n".join(data)) if data else None
