"""The two ways to perform a call: in this thread, or on the event loop. Only waiting differs."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import httpx

from app.client.call import READS, Call, Page
from app.client.errors import UnreachableError
from app.client.record import Record
from app.client.reply import Reply
from app.client.retry import Outcome, Retry

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Manner:
    """How calls are sent: the headers they all carry, and when they are tried again."""

    headers: Mapping[str, str] = field(default_factory=dict)
    retry: Retry = field(default_factory=Retry)

    def with_headers(self, headers: Mapping[str, str]) -> Manner:
        """The same manner with more headers."""
        return replace(self, headers={**self.headers, **headers})

    def headers_of(self, call: Call[T]) -> dict[str, str]:
        """A call's headers. A write without an Idempotency-Key gets one here, once, for all its tries."""
        headers = {"Accept": "application/json", **self.headers}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if call.method not in READS:
            headers.setdefault("Idempotency-Key", uuid.uuid4().hex)
        return headers


class SyncTransport:
    """Performs calls one after the other, sleeping in between tries."""

    def __init__(self, http: httpx.Client, manner: Manner) -> None:
        self.http = http
        self.manner = manner

    def perform(self, call: Call[T]) -> T:
        """Send, try again as the manner allows, and return the result or raise."""
        request = self.http.build_request(
            call.method, call.target, content=call.body, headers=self.manner.headers_of(call)
        )
        for attempt in itertools.count(1):
            outcome = self._send(request)
            pause = self.manner.retry.pause_seconds(attempt, outcome)
            if pause is None:
                return _conclude(call, outcome)
            time.sleep(pause)
        raise AssertionError("a retry is bounded")

    def listing(self, call: Call[Page[R]]) -> Listing[R]:
        """The list that begins with a call."""
        return Listing(self, call)

    def _send(self, request: httpx.Request) -> Outcome:
        try:
            response = self.http.send(request)
        except httpx.TransportError as error:
            return error
        return Reply(response.status_code, response.headers, response.content)


class AsyncTransport:
    """Performs calls on the event loop; any number may be under way at once."""

    def __init__(self, http: httpx.AsyncClient, manner: Manner) -> None:
        self.http = http
        self.manner = manner

    async def perform(self, call: Call[T]) -> T:
        """Send, try again as the manner allows, and return the result or raise."""
        request = self.http.build_request(
            call.method, call.target, content=call.body, headers=self.manner.headers_of(call)
        )
        for attempt in itertools.count(1):
            outcome = await self._send(request)
            pause = self.manner.retry.pause_seconds(attempt, outcome)
            if pause is None:
                return _conclude(call, outcome)
            await asyncio.sleep(pause)
        raise AssertionError("a retry is bounded")

    def listing(self, call: Call[Page[R]]) -> AsyncListing[R]:
        """The list that begins with a call."""
        return AsyncListing(self, call)

    async def _send(self, request: httpx.Request) -> Outcome:
        try:
            response = await self.http.send(request)
        except httpx.TransportError as error:
            return error
        return Reply(response.status_code, response.headers, response.content)


class Listing(Generic[R]):
    """A list, read page by page as it is iterated; nothing is asked before."""

    def __init__(self, transport: SyncTransport, call: Call[Page[R]]) -> None:
        self._transport = transport
        self._call = call

    def page(self) -> Page[R]:
        """Only the first page."""
        return self._transport.perform(self._call)

    def pages(self) -> Iterator[Page[R]]:
        """Every page until the list ends."""
        call: Call[Page[R]] | None = self._call
        while call is not None:
            page = self._transport.perform(call)
            yield page
            call = _next(call, page)

    def __iter__(self) -> Iterator[R]:
        return (item for page in self.pages() for item in page.items)


class AsyncListing(Generic[R]):
    """A list, read page by page as it is iterated; nothing is asked before."""

    def __init__(self, transport: AsyncTransport, call: Call[Page[R]]) -> None:
        self._transport = transport
        self._call = call

    async def page(self) -> Page[R]:
        """Only the first page."""
        return await self._transport.perform(self._call)

    async def pages(self) -> AsyncIterator[Page[R]]:
        """Every page until the list ends."""
        call: Call[Page[R]] | None = self._call
        while call is not None:
            page = await self._transport.perform(call)
            yield page
            call = _next(call, page)

    async def __aiter__(self) -> AsyncIterator[R]:
        async for page in self.pages():
            for item in page.items:
                yield item


def _next(call: Call[Page[R]], page: Page[R]) -> Call[Page[R]] | None:
    # A feed always has a next cursor; it has ended for now when it has nothing to say.
    is_feed_end = call.cursor_name == "after" and not page.items
    return None if page.next_cursor is None or is_feed_end else call.at_cursor(page.next_cursor)


def _conclude(call: Call[T], outcome: Outcome) -> T:
    if isinstance(outcome, Reply):
        return call.result(outcome)
    reason = str(outcome) or type(outcome).__name__
    raise UnreachableError("unreachable", detail=f"{call.method} {call.path}: {reason}") from outcome
