"""The two clients and the batch: the same calls, in three modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack
from urllib.parse import quote

import httpx

from app.client.batch import Recorder
from app.client.errors import CairnError
from app.client.held import HeldSubmission
from app.client.retry import Retry
from app.client.surface import AsyncSurface, Surface, SyncSurface
from app.client.transport import AsyncTransport, FencedTransport, Manner, SyncTransport
from app.client.work import Worker, WorkFields, WorkOptions

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_SECONDS = 30.0


class Cairn(SyncSurface):
    """The client for ordinary code. Use it as a context manager, or call `close`.

    `tenant` names the tenant that an operator's key acts for; a tenant's own key needs none. `attempt` is
    `(submission_id, attempt_id)`: every write then happens only while that attempt owns its submission; `lease` is
    `(name, fencing_token)`: only while that token holds the lease.
    Raises `ValueError` for a URL without http:// or https://, and for a key that no header can carry.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        tenant: str | None = None,
        attempt: tuple[str, str] | None = None,
        lease: tuple[str, int] | None = None,
        retry: Retry | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        http = httpx.Client(base_url=_absolute(url), timeout=timeout_seconds)
        super().__init__(SyncTransport(http, Manner(_headers(key, tenant, attempt, lease), retry or Retry())))

    def using(
        self,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        attempt: tuple[str, str] | None = None,
        lease: tuple[str, int] | None = None,
        tenant: str | None = None,
    ) -> Cairn:
        """This client with more headers, on the same connections; give an Idempotency-Key to one call only."""
        more = _headers(None, tenant, attempt, lease, idempotency_key, if_match, if_none_match)
        other = Cairn.__new__(Cairn)
        SyncSurface.__init__(other, self._mode.in_manner(self._mode.manner.with_headers(more)))
        return other

    def batch(self) -> Batch:
        """Operations to gather and then `send` in one transaction."""
        return Batch(self._mode)

    def close(self) -> None:
        """Close the connections, those of clients derived by `using` too."""
        self._mode.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncCairn(AsyncSurface):
    """The client for the event loop: the same calls as `Cairn`, awaited. Use it as an async context manager."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        tenant: str | None = None,
        attempt: tuple[str, str] | None = None,
        lease: tuple[str, int] | None = None,
        retry: Retry | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        http = httpx.AsyncClient(base_url=_absolute(url), timeout=timeout_seconds)
        super().__init__(AsyncTransport(http, Manner(_headers(key, tenant, attempt, lease), retry or Retry())))

    def using(
        self,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        attempt: tuple[str, str] | None = None,
        lease: tuple[str, int] | None = None,
        tenant: str | None = None,
    ) -> AsyncCairn:
        """This client with more headers, on the same connections; give an Idempotency-Key to one call only."""
        more = _headers(None, tenant, attempt, lease, idempotency_key, if_match, if_none_match)
        return _on(self._mode.in_manner(self._mode.manner.with_headers(more)))

    def trying_again(self, retry: Retry) -> AsyncCairn:
        """This client with another rule for trying again, on the same connections."""
        return _on(self._mode.in_manner(replace(self._mode.manner, retry=retry)))

    def under(self, attempt: tuple[str, str], check: Callable[[], None]) -> AsyncCairn:
        """This client writing for an attempt; `check` is called before each try of a write, and may refuse it."""
        manner = self._mode.manner.with_headers(_headers(None, None, attempt))
        return _on(FencedTransport(self._mode.http, manner, check))

    def work(self, **options: Unpack[WorkFields]) -> AsyncGenerator[HeldSubmission, None]:
        """Submissions to work on, until a signal drains the worker: `async with submission:` does the work and settles.

        See `WorkFields` for what may be said, and `HeldSubmission` for what settles when.
        """
        return Worker(self, WorkOptions(**options)).submissions()

    async def run_worker(
        self, handler: Callable[[HeldSubmission], Awaitable[None]], **options: Unpack[WorkFields]
    ) -> None:
        """Run a handler for each submission, as many at once as `concurrency`, until a signal drains the worker.

        An error that ends the claiming is raised once what is in hand has ended.
        """

        async def handle(submission: HeldSubmission) -> None:
            async with submission:
                await handler(submission)

        refused: CairnError | None = None
        async with asyncio.TaskGroup() as tasks, aclosing(self.work(**options)) as submissions:
            try:
                async for submission in submissions:
                    tasks.create_task(handle(submission))
            except CairnError as error:
                refused = error
        if refused is not None:
            raise refused

    def batch(self) -> AsyncBatch:
        """Operations to gather and then `send` in one transaction."""
        return AsyncBatch(self._mode)

    async def aclose(self) -> None:
        """Close the connections, those of clients derived by `using` too."""
        await self._mode.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Batch(Surface[Recorder]):
    """Operations for one transaction: each call returns a `Pending` whose `result()` can be read after `send`."""

    def __init__(self, transport: SyncTransport) -> None:
        super().__init__(Recorder())
        self._transport = transport

    def send(self) -> None:
        """Do everything or nothing; a refusal raises with the failed operation's place in `facts["index"]`."""
        self._transport.perform(self._mode.call())


class AsyncBatch(Surface[Recorder]):
    """Operations for one transaction: each call returns a `Pending` whose `result()` can be read after `send`."""

    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(Recorder())
        self._transport = transport

    async def send(self) -> None:
        """Do everything or nothing; a refusal raises with the failed operation's place in `facts["index"]`."""
        await self._transport.perform(self._mode.call())


def _on(mode: AsyncTransport) -> AsyncCairn:
    other = AsyncCairn.__new__(AsyncCairn)
    AsyncSurface.__init__(other, mode)
    return other


def _absolute(url: str) -> str:
    # Told at once: to a transport it would look like a server that cannot be reached, which is tried again.
    try:
        read = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url {url!r} cannot be read ({error}); give one such as {DEFAULT_URL}") from error
    if read.scheme not in ("http", "https") or not read.host:
        raise ValueError(f"url {url!r} has no http:// or https:// with a host; give one such as {DEFAULT_URL}")
    return url


def _headers(
    key: str | None,
    tenant: str | None,
    attempt: tuple[str, str] | None,
    lease: tuple[str, int] | None = None,
    idempotency_key: str | None = None,
    if_match: str | None = None,
    if_none_match: str | None = None,
) -> dict[str, str]:
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ValueError("key is not printable ASCII; give the key as it was shown, with nothing around it")
    given = {
        "Authorization": f"Bearer {key}" if key else None,
        "X-Tenant-Id": tenant,
        "Submission-Attempt": ";".join(quote(part, safe="") for part in attempt) if attempt else None,
        "Lease": f"{quote(lease[0], safe='')};{lease[1]}" if lease else None,
        "Idempotency-Key": idempotency_key,
        "If-Match": if_match,
        "If-None-Match": if_none_match,
    }
    return {name: text for name, text in given.items() if text is not None}
