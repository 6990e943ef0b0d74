"""Receives a request body: bounded in size, and in the silence between its parts."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from app.errors import MalformedRequest, PayloadTooLarge, RequestTimeout
from app.settings import HttpSettings


class Disconnected(Exception):
    """The client left before its request was whole; nobody is there to answer."""


async def receive_body(receive: Receive, declared: str | None, settings: HttpSettings) -> bytes:
    """The whole body. Raises `PayloadTooLarge` as soon as that is known, `RequestTimeout` after a long silence."""
    limit = settings.body_bytes_max
    if declared is not None:
        if not declared.isdigit():
            raise MalformedRequest("Content-Length is not a number.")
        if int(declared) > limit:
            raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await _next(receive, settings.receive_seconds)
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return part if not parts else b"".join((*parts, part))
        parts.append(part)


async def _next(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        raise RequestTimeout(f"No part of the body arrived for {seconds:g} s; nothing was stored.") from None


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body may have at most {limit} bytes.", limit_bytes=limit)
