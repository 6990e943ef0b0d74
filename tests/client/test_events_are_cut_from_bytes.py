"""A stream of events is cut where the protocol says, however its bytes arrive and whatever the data holds."""

from __future__ import annotations

import pytest

from app.client.event_stream import EventReader, ServerEvent

STREAM = (
    b": hello\r\n\r\n"
    b'id: 0_0@inc\ndata: {"offset":"0_0","records":[1.0]}\n\n'
    b"event: other\rid:0_1@inc\rdata: a\rdata:  b\r\r"
    b"data: \xe2\x80\xa8\xc2\x85\x0b\n\n"
    b"data: c\r\n\ndata: d\n\r\n"
    b"id: 0_9@inc\ndata: half"
)
EVENTS = [
    ServerEvent("message", "0_0@inc", b'{"offset":"0_0","records":[1.0]}'),
    ServerEvent("other", "0_1@inc", b"a\n b"),
    ServerEvent("message", "0_1@inc", b"\xe2\x80\xa8\xc2\x85\x0b"),
    ServerEvent("message", "0_1@inc", b"c"),
    ServerEvent("message", "0_1@inc", b"d"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_come_whole_in_pieces_of_any_size(size: int) -> None:
    reader = EventReader()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS


def test_an_event_without_data_is_none() -> None:
    assert list(EventReader().feed(b"event: nothing\nid: 7\n\n: comment\n\n")) == []
