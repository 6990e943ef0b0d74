"""The door to Redis: one connection that gathers the commands of everybody, until it breaks."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from app.cache.cache import VALUE_BYTES_MAX, Key, Script, Word
from app.errors import Unavailable

WAIT_SECONDS = 0.05
CONNECT_SECONDS = 1
OPEN_SECONDS = 2
# A server that is silent for so long has broken the connection; a busy process, or a slow command, is no silence.
SILENCE_SECONDS = 1.0
# An idle connection is asked this often whether it still stands.
PROBE_SECONDS = 1.0
WAITING_MAX = 10_000
BATCH_MAX = 100
CLOSE_SECONDS = 0.5
# How many keys one step of a search looks at, and the longest wait for it.
SCANNED, SCAN_SECONDS = 1000, 5.0
_FAILURES = (RedisError, OSError, TimeoutError, ValueError)

Took = Callable[[str, float], None]
"""Called with what was asked and the seconds that its answer took."""


class _Asked(NamedTuple):
    words: Sequence[Word]
    answer: asyncio.Future[Any]


class RedisCache:
    """The cache in Redis or Valkey. Every call ends within `wait_seconds` or so, and raises `Unavailable` if it must.

    Callers put their commands in line and wait for a future; one task alone writes them and reads the answers, in
    order. So a caller that is cancelled or gives up takes nothing away from the connection, and its answer reaches
    nobody. `broken` is set once the connection is lost.
    """

    def __init__(
        self, url: str, prefix: str = "cairn", wait_seconds: float = WAIT_SECONDS,
        took: Took = lambda _what, _seconds: None,
    ) -> None:  # fmt: skip
        self._url, self._prefix, self._wait_seconds, self._took = url, prefix, wait_seconds, took
        self._connection: AbstractConnection | None = None
        self._waiting: deque[_Asked] = deque()
        self._called = asyncio.Event()
        self._carrying: asyncio.Task[None] | None = None
        self._closing = False
        self.broken = asyncio.Event()
        self.why = "Redis went away."

    async def open(self) -> None:
        """Connect, and write something, before it returns. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                pool = ConnectionPool.from_url(
                    self._url, protocol=2, socket_timeout=None, socket_connect_timeout=CONNECT_SECONDS,
                    # Trying again is up to whoever keeps the line; a command that may have been done is not repeated.
                    retry=Retry(NoBackoff(), 0),
                )  # fmt: skip
                self._connection = pool.make_connection()  # type: ignore[no-untyped-call]
                await self._connection.connect()
                await self._connection.send_command(*self._probe(), check_health=False)
                # One that is full can be read; `check` says the rest.
                with suppress(OutOfMemoryError):
                    await self._connection.read_response()
        except _FAILURES as error:
            await self.close()
            raise Unavailable(_explained(error)) from error
        self._carrying = asyncio.create_task(self._carry(self._connection), name="commands to Redis")

    async def get(self, key: Key) -> bytes | None:
        """The value, or None where there is none. Raises `Unavailable`."""
        found: bytes | None = await self._ask("get", "GET", self._name(key))
        return found

    async def put(self, key: Key, value: bytes, ttl_seconds: float) -> None:
        """Keep the value for so long at most. Raises `Unavailable`."""
        milliseconds = int(ttl_seconds * 1000)
        if milliseconds <= 0 or len(value) > VALUE_BYTES_MAX:
            await self.delete(key)
        else:
            await self._ask("put", "SET", self._name(key), value, "PX", milliseconds)

    async def delete(self, key: Key) -> None:
        """Keep it no more. Raises `Unavailable`."""
        await self._ask("delete", "DEL", self._name(key))

    async def erase(self, tenant_id: str) -> int:
        """Keep nothing of a tenant any more; how many values that were. Raises `Unavailable`.

        Every key of the service is looked at, so it takes a moment; others are served meanwhile.
        """
        pattern, erased, cursor = f"{_literal(self._prefix)}:*:{tenant_id}:*", 0, b"0"
        while True:
            words = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
            cursor, found = await self._ask("scan", *words, seconds=SCAN_SECONDS)
            # A name may hold what looks like another tenant's place.
            keys = [key for key in found if self._tenant_of(key) == tenant_id.encode()]
            if keys:
                erased += await self._ask("unlink", "UNLINK", *keys, seconds=SCAN_SECONDS)
            if int(cursor) == 0:
                return erased

    async def run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Word]) -> Any:
        """What the program answers. Raises `Unavailable`."""
        words = (len(keys), *(self._name(key) for key in keys), *arguments)
        try:
            return await self._ask(script.name, "EVALSHA", script.digest, *words)
        except _NotKnown:
            # Redis has started anew, or its programs were flushed; told whole, it knows this one again.
            return await self._ask(script.name, "EVAL", script.text, *words)

    async def check(self, seconds: float) -> str:
        """The server's version, if it takes what is written, within so many seconds. Raises `Unavailable`."""
        await self._ask("check", *self._probe(), seconds=seconds)
        told = (await self._ask("check", "INFO", "server", seconds=seconds)).decode()
        lines: dict[str, str] = dict(line.partition(":")[::2] for line in told.splitlines())
        return lines.get("valkey_version") or lines["redis_version"]

    async def close(self) -> None:
        """End what is under way, if that is quick, and close the connection."""
        self._closing = True
        self._called.set()
        if self._carrying is not None:
            await asyncio.wait({self._carrying}, timeout=CLOSE_SECONDS)
            self._carrying.cancel()
            await asyncio.wait({self._carrying})
        await self._break(self._connection, ())

    def _probe(self) -> tuple[Word, ...]:
        """A write that leaves nothing: Redis may answer, and still take none."""
        return "SETRANGE", f"{self._prefix}:probe", 0, ""

    def _name(self, key: Key) -> str:
        # Kinds and tenants hold no colon; a name may, and comes last.
        return f"{self._prefix}:{key.kind}:{key.tenant_id}:{key.name}"

    def _tenant_of(self, name: bytes) -> bytes:
        return name[len(self._prefix.encode()) + 1 :].split(b":", 2)[1]

    async def _ask(self, what: str, *words: Word, seconds: float | None = None) -> Any:
        if self.broken.is_set() or self._closing or len(self._waiting) >= WAITING_MAX:
            raise Unavailable("Redis is away.")
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        answer: asyncio.Future[Any] = loop.create_future()
        late = loop.call_later(seconds or self._wait_seconds, _give_up, answer)
        self._waiting.append(_Asked(words, answer))
        self._called.set()
        try:
            found = await answer
        except TimeoutError as error:
            raise Unavailable("Redis does not answer in time.") from error
        finally:
            late.cancel()
            self._took(what, time.perf_counter() - started)
        if isinstance(found, NoScriptError):
            raise _NotKnown("Redis does not know the program.")
        if isinstance(found, ResponseError):
            raise Unavailable(_explained(found))
        return found

    async def _carry(self, connection: AbstractConnection) -> None:
        """Send what waits and hand out the answers; ends when the connection does."""
        batch: list[_Asked] = []
        try:
            while not self._closing or self._waiting:
                if not self._waiting and not await self._rung():
                    self._waiting.append(_Asked(("PING",), asyncio.get_running_loop().create_future()))
                # Who waits no longer wants nothing done.
                first = (self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX)))
                batch = [asked for asked in first if not asked.answer.done()]
                if batch:
                    await self._exchange(connection, batch)
        except _FAILURES:
            pass  # `broken` says it, and the next opening says why
        finally:
            await self._break(connection, batch)

    async def _rung(self) -> bool:
        """Wait for somebody to ask; False after a while of silence."""
        self._called.clear()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._called.wait()
        except TimeoutError:
            return False
        return True

    async def _exchange(self, connection: AbstractConnection, batch: Sequence[_Asked]) -> None:
        loop = asyncio.get_running_loop()
        patience = max(SILENCE_SECONDS, 2 * self._wait_seconds)
        async with asyncio.timeout(patience) as silence:
            await connection.send_packed_command(
                connection.pack_commands(asked.words for asked in batch), check_health=False
            )
            for asked in batch:
                try:
                    found = await connection.read_response()
                except ReadOnlyError:
                    # It became a replica: whoever leads now is found by connecting again.
                    raise
                except ResponseError as refusal:
                    found = refusal
                if not asked.answer.done():
                    asked.answer.set_result(found)
                silence.reschedule(loop.time() + patience)

    async def _break(self, connection: AbstractConnection | None, batch: Sequence[_Asked]) -> None:
        self.broken.set()
        for asked in (*batch, *self._waiting):
            if not asked.answer.done():
                asked.answer.set_exception(Unavailable(self.why))
                # Where nobody waits for it, nobody is to be told.
                asked.answer.exception()
        self._waiting.clear()
        if connection is not None:
            with suppress(*_FAILURES):
                await connection.disconnect(nowait=True)


class _NotKnown(Unavailable):
    """Redis has not seen the program since it began."""


def _literal(text: str) -> str:
    """A pattern of Redis that this text alone matches."""
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text)


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _explained(error: Exception) -> str:
    """What is wrong, and what to do where that is known."""
    if isinstance(error, AuthenticationError):
        return "Redis refuses the user or password; correct CAIRN_REDIS__URL."
    if isinstance(error, ReadOnlyError):
        return "Redis is a read-only replica; let CAIRN_REDIS__URL name the server that takes writes."
    if isinstance(error, OutOfMemoryError):
        return "Redis is full and evicts nothing; give it more maxmemory, or the policy allkeys-lru."
    brief = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"Redis {'refuses' if isinstance(error, ResponseError) else 'does not answer'} ({brief[:160]})."
