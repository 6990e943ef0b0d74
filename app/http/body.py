"""Receives a request body: bounded in size, and in the silence between its parts."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from app.errors import MalformedRequest, PayloadTooLarge, RequestTimeout, UnsupportedMediaType
from app.settings import HttpSettings


class Disconnected(Exception):
    """The client left before its request was whole; nobody is there to answer."""


async def receive_body(receive: Receive, declared: str | None, settings: HttpSettings) -> bytes:
    """The whole body. Raises `PayloadTooLarge` as soon as that is known, `RequestTimeout` after a long silence."""
    limit = settings.body_bytes_max
    check_declared(declared, limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await next_part(receive, settings.receive_seconds)
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return part if not parts else b"".join((*parts, part))
        parts.append(part)


def check_coding(coding: str | None) -> None:
    """Refuse a body by its `Content-Encoding`: bytes are stored as they come. Raises `UnsupportedMediaType`."""
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType(
            "Send the body as it is, without a Content-Encoding.", headers={"Accept-Encoding": "identity"}
        )


def check_declared(declared: str | None, limit: int) -> None:
    """Refuse a body by its `Content-Length`. Raises `MalformedRequest`, `PayloadTooLarge`."""
    if declared is None:
        return
    if not (declared.isascii() and declared.isdigit()):
        raise MalformedRequest("Content-Length is not a number.")
    if int(declared) > limit:
        raise too_large(limit)


async def next_part(receive: Receive, seconds: float) -> Message:
    """What comes next of a body. Raises `RequestTimeout` after so many seconds, `Disconnected` where nobody sends."""
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        # What still comes would be read as part of this body: the connection is of no further use.
        raise RequestTimeout(
            f"No part of the body arrived for {seconds:g} s; nothing was stored.", headers={"Connection": "close"}
        ) from None
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message


def too_large(limit: int) -> PayloadTooLarge:
    """The refusal of a body over the limit."""
    return PayloadTooLarge(f"The body may have at most {limit} bytes.", limit_bytes=limit)
