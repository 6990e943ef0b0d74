"""The two ways to perform a call: in this thread, or on the event loop. Only waiting differs."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
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
        """A call's headers. A write that needs an Idempotency-Key and has none gets one here, once, for all tries."""
        headers = {"Accept": "application/json", **self.headers, **dict(call.headers)}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if call.method not in READS and not call.repeatable:
            headers.setdefault("Idempotency-Key", uuid.uuid4().hex)
        return headers


class SyncTransport:
    """Performs calls one after the other, sleeping in between tries."""

    def __init__(self, http: httpx.Client, manner: Manner) -> None:
        self.http = http
        self.manner = manner

    def in_manner(self, manner: Manner) -> SyncTransport:
        """The same connections, used in another manner."""
        return SyncTransport(self.http, manner)

    def perform(self, call: Call[T]) -> T:
        """Send, try again as the manner allows, and return the result or raise."""
        request = self.http.build_request(
            call.method,
            call.target,
            content=call.body,
            headers=self.manner.headers_of(call),
            timeout=_timeout(self.http.timeout, call.wait_seconds),
        )
        for attempt in itertools.count(1):
            outcome = self._send(request)
            pause = self.manner.retry.pause_seconds(attempt, outcome)
            if pause is None:
                return conclude(call, outcome)
            time.sleep(pause)
        raise AssertionError("a retry is bounded")

    @contextmanager
    def opened(
        self, call: Call[T], headers: Mapping[str, str], content: Iterable[bytes] | None = None
    ) -> Iterator[httpx.Response]:
        """Send once, with a body that is read while it goes, and give the answer while it still comes."""
        request = self.http.build_request(
            call.method, call.target, content=content, headers={**self.manner.headers_of(call), **headers}
        )
        response = self.http.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()

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

    def in_manner(self, manner: Manner) -> AsyncTransport:
        """The same connections, used in another manner."""
        return AsyncTransport(self.http, manner)

    async def perform(self, call: Call[T]) -> T:
        """Send, try again as the manner allows, and return the result or raise."""
        request = self.http.build_request(
            call.method,
            call.target,
            content=call.body,
            headers=self.manner.headers_of(call),
            timeout=_timeout(self.http.timeout, call.wait_seconds),
        )
        for attempt in itertools.count(1):
            outcome = await self._send(request)
            pause = self.manner.retry.pause_seconds(attempt, outcome)
            if pause is None:
                return conclude(call, outcome)
            await asyncio.sleep(pause)
        raise AssertionError("a retry is bounded")

    @asynccontextmanager
    async def opened(
        self, call: Call[T], headers: Mapping[str, str], content: AsyncIterable[bytes] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Send once, with a body that is read while it goes, and give the answer while it still comes."""
        request = self.http.build_request(
            call.method,
            call.target,
            content=content,
            headers={**self.manner.headers_of(call), **headers},
            timeout=_timeout(self.http.timeout, call.wait_seconds),
        )
        response = await self._answer(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def listing(self, call: Call[Page[R]]) -> AsyncListing[R]:
        """The list that begins with a call."""
        return AsyncListing(self, call)

    async def _answer(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        return await self.http.send(request, stream=stream)

    async def _send(self, request: httpx.Request) -> Outcome:
        try:
            response = await self._answer(request)
        except httpx.TransportError as error:
            return error
        return Reply(response.status_code, response.headers, response.content)


class FencedTransport(AsyncTransport):
    """Performs calls under an attempt: before each try of a write, `check` raises if the attempt owns no longer."""

    def __init__(self, http: httpx.AsyncClient, manner: Manner, check: Callable[[], None]) -> None:
        super().__init__(http, manner)
        self._check = check

    def in_manner(self, manner: Manner) -> FencedTransport:
        """The same connections and attempt, used in another manner."""
        return FencedTransport(self.http, manner, self._check)

    async def _answer(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        if request.method not in READS:
            self._check()
        return await super()._answer(request, stream=stream)


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


def _timeout(usual: httpx.Timeout, wait_seconds: float) -> httpx.Timeout:
    if not wait_seconds or usual.read is None:
        return usual
    return httpx.Timeout(connect=usual.connect, read=usual.read + wait_seconds, write=usual.write, pool=usual.pool)


def _next(call: Call[Page[R]], page: Page[R]) -> Call[Page[R]] | None:
    # A feed always has a next cursor; it has ended for now when it has nothing to say.
    is_feed_end = call.cursor_name == "after" and not page.items
    return None if page.next_cursor is None or is_feed_end else call.at_cursor(page.next_cursor)


def conclude(call: Call[T], outcome: Outcome) -> T:
    """The result of a call whose last try is over, or the error that it is."""
    if isinstance(outcome, Reply):
        return call.result(outcome)
    reason = str(outcome) or type(outcome).__name__
    raise UnreachableError("unreachable", detail=f"{call.method} {call.path}: {reason}") from outcome
