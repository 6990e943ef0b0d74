"""Which of JSON and SVG an `Accept` asks for."""

from __future__ import annotations

import pytest
from starlette.types import Message

from app.http.call import Call
from app.http.drawing import wants_picture


async def nothing() -> Message:
    return {"type": "http.disconnect"}


def asking(*accept: str) -> Call:
    headers = [(b"accept", value.encode()) for value in accept]
    return Call({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}, nothing)


@pytest.mark.parametrize(
    "accept",
    [
        "image/svg+xml",
        "IMAGE/SVG+XML; charset=utf-8",
        "image/*",
        "image/svg+xml, */*",
        "image/svg+xml, application/json;q=0.9",
        "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        "image/*;q=0.5, application/json;q=0.4",
        "application/json;q=0, image/svg+xml;q=0.1",
        "*/*, application/json;q=0.1",
    ],
)
def test_a_picture_is_given_to_who_ranks_it_first(accept: str) -> None:
    assert wants_picture(asking(accept))


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/json, image/svg+xml",
        "application/*, image/*",
        "image/png",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "image/svg+xml;q=0",
        "image/svg+xml;q=none",
        "image/svg+xml;q=nan",
        "image/svg+xml;q=0.5, application/json",
        "image/*, image/svg+xml;q=0, */*;q=0.1",
        "nonsense",
        ",;,/;q",
    ],
)
def test_everyone_else_gets_json(accept: str) -> None:
    assert not wants_picture(asking(accept))


def test_without_a_header_the_answer_is_json_and_two_headers_are_read_as_one() -> None:
    assert not wants_picture(asking())
    assert wants_picture(asking("application/json;q=0.5", "image/svg+xml"))


def test_inside_a_batch_the_answer_is_json() -> None:
    call = asking("image/svg+xml")
    call.batched = True
    assert not wants_picture(call)
