"""The one door to PostgreSQL: a pool, reads in one snapshot, writes in one transaction. Nothing else commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from app.db.connections import IDLE_SECONDS, Connections
from app.db.fences import NO_FENCES, Fences
from app.db.integrity import DRIVER_ERRORS, TRIES, NotNew, explain, is_lost, is_retryable, pause_seconds
from app.db.sql import Statement
from app.db.vectors import set_vector_codec
from app.errors import AppError, Unavailable
from app.settings import DatabaseSettings

# How much longer than PostgreSQL itself we wait for the end of a statement: one that is paused ends none.
SILENCE_SECONDS = 2
CLOSE_SECONDS = 10


@dataclass(frozen=True)
class Answer:
    """What a write says: a status, a JSON body as PostgreSQL wrote it, and the row's revision for the ETag.

    `kept` is the body that is kept for replays, where that is another one: without secrets, without payloads. `moved`
    names what somebody may wait for.
    """

    status: int
    body: bytes | None
    etag: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    kept: bytes | None = None
    moved: Sequence[str] = ()


@dataclass(frozen=True)
class KeyClaim:
    """An Idempotency-Key and the digest of the request that it stands for."""

    key: str
    fingerprint: bytes


class Reader(Protocol):
    """Where a store reads: the pool (one statement, one snapshot) or a transaction (one snapshot for several)."""

    async def rows(self, statement: Statement, **arguments: Any) -> list[asyncpg.Record]: ...

    async def row(self, statement: Statement, **arguments: Any) -> asyncpg.Record | None: ...


class Writer(Reader, Protocol):
    """Where a store writes. `answer` runs the one statement that decides, and gives None where it gave no answer.

    `if_new` does the same for less where every row is new, and violates a primary key where one is not. It may be tried
    first where that costs no more than itself: not within a transaction, which such an error would end.
    """

    async def answer(
        self, statement: Statement, if_new: Statement | None = None, /, **arguments: Any
    ) -> Answer | None: ...


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection whose return to the pool costs no round trip: nothing here leaves session state behind."""

    def get_reset_query(self) -> str:
        return ""


async def set_codecs(connection: asyncpg.Connection) -> None:
    """Let `json`, `jsonb` and vectors come and go as bytes."""
    # On the wire `json` is its text, as `bytea` is its bytes; the driver's own codec calls no Python for each value.
    await connection.set_builtin_type_codec("json", schema="pg_catalog", codec_name="bytea", format="binary")
    # The binary form of `jsonb` is its text after a version.
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + value,
        decoder=lambda value: value[1:],
    )
    await set_vector_codec(connection)


class Database:
    """A pool of connections. Open it once for each process, close it at the end."""

    def __init__(self, settings: DatabaseSettings, url: str, pool: asyncpg.Pool) -> None:
        self.settings, self.url = settings, url
        self._connections = Connections(pool, settings.acquire_seconds)

    @classmethod
    async def open(cls, settings: DatabaseSettings, *, name: str = "cairn") -> Database:
        """Connect. Raises `Unavailable` when PostgreSQL does not answer."""
        url = settings.driver_url
        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=min(settings.pool_min, settings.pool_max),
                max_size=settings.pool_max,
                max_inactive_connection_lifetime=IDLE_SECONDS,
                statement_cache_size=1024 if settings.statement_cache else 0,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=64 * 1024,
                connection_class=_Connection,
                init=set_codecs,
                timeout=settings.acquire_seconds,
                command_timeout=settings.statement_seconds + SILENCE_SECONDS,
                server_settings=_session(settings, name) if settings.session_settings else None,
            )
        except asyncpg.ProtocolViolationError as error:
            raise Unavailable(
                "A pooler refuses the start-up parameters: set CAIRN_DATABASE__SESSION_SETTINGS=false and"
                " CAIRN_DATABASE__STATEMENT_CACHE=false, and the time-outs by ALTER ROLE."
            ) from error
        except (OSError, TimeoutError, asyncpg.PostgresError) as error:
            raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}.") from error
        return cls(settings, url, pool)

    async def close(self) -> None:
        """Wait for running statements, a bounded time, and close every connection."""
        await self._connections.close(CLOSE_SECONDS)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            connection = await self._connections.take()
        except (TimeoutError, *DRIVER_ERRORS) as error:
            raise Unavailable("No database connection was free in time; try again.") from error
        clean = False
        try:
            yield connection
            clean = True
        except Exception as error:
            if is_lost(error.__cause__ or error):
                # Where one session was ended, the others were too, as a rule: each is opened again at its next use.
                await self._connections.expire()
            raise
        finally:
            await self._connections.give(connection, clean=clean)

    async def rows(self, statement: Statement, **arguments: Any) -> list[asyncpg.Record]:
        """Run one statement; it is its own transaction."""
        for attempt in range(TRIES):
            async with self._connection() as connection:
                try:
                    return await connection.fetch(statement.text, *statement.bind(arguments))  # type: ignore[no-any-return]
                except Exception as error:
                    if attempt == TRIES - 1 or not is_retryable(error):
                        raise explain(error) from error
            await asyncio.sleep(pause_seconds(attempt))
        raise AssertionError("unreachable")

    async def row(self, statement: Statement, **arguments: Any) -> asyncpg.Record | None:
        """The first row of one statement, or None."""
        found = await self.rows(statement, **arguments)
        return found[0] if found else None

    async def execute(self, sql: str) -> None:
        """Run SQL without parameters, outside any answer: session-independent housekeeping only."""
        async with self._connection() as connection:
            try:
                await connection.execute(sql)
            except DRIVER_ERRORS as error:
                raise explain(error) from error

    def once(self, tenant_id: str, claim: KeyClaim | None = None, fences: Fences = NO_FENCES) -> Once:
        """A writer for a write that is one statement: one round trip, committed when it returns."""
        return Once(self, tenant_id, claim, fences)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """Several reads on one snapshot; PostgreSQL itself refuses a write."""
        async with (
            self._connection() as connection,
            _explained(connection.transaction(isolation="repeatable_read", readonly=True)),
        ):
            yield Transaction(connection)

    @asynccontextmanager
    async def writing(self, *, snapshot: bool = False) -> AsyncIterator[Transaction]:
        """One transaction: committed when the block ends, rolled back when it raises; on one `snapshot` if told so."""
        isolation = "repeatable_read" if snapshot else "read_committed"
        async with self._connection() as connection, _explained(connection.transaction(isolation=isolation)):
            yield Transaction(connection)

    @property
    def connections(self) -> tuple[int, int]:
        """Open connections, and those of them that are idle."""
        return self._connections.counts


@asynccontextmanager
async def _explained(transaction: Any) -> AsyncIterator[None]:
    try:
        async with transaction:
            yield
    except DRIVER_ERRORS as error:
        raise explain(error) from error


class Once:
    """Writes in one statement each. The Idempotency-Key is claimed and kept inside the statement that answers, and the
    attempt and the lease that the write happens under are held there; `held` tells whether they were.
    """

    def __init__(self, database: Database, tenant_id: str, claim: KeyClaim | None, fences: Fences) -> None:
        self._database = database
        self.rows, self.row = database.rows, database.row
        self.held = False
        self._kinds: dict[str, bool] = {}
        self._under: dict[str, Any] = {}
        if claim is not None:
            self._kinds["key"] = True
            self._under.update(claim_tenant=tenant_id, claim_key=claim.key, claim_fingerprint=claim.fingerprint)
        if fences:
            self._hold(tenant_id, fences)

    def _hold(self, tenant_id: str, fences: Fences) -> None:
        self._under["fence_tenant"] = tenant_id
        if fences.attempt is not None:
            self._kinds["attempt"] = True
            self._under.update(fence_submission=fences.attempt.submission_id, fence_attempt=fences.attempt.attempt_id)
        if fences.lease is not None:
            self._kinds["lease"] = True
            self._under.update(fence_lease=fences.lease.name, fence_token=fences.lease.token)

    async def answer(self, statement: Statement, if_new: Statement | None = None, /, **arguments: Any) -> Answer | None:
        """Run the statement that decides; where there is one, that for new rows before it."""
        if if_new is not None:
            try:
                return await self._answer(if_new, arguments)
            except NotNew:
                pass  # nothing has happened, the claim of a key included
        return await self._answer(statement, arguments)

    async def _answer(self, statement: Statement, arguments: dict[str, Any]) -> Answer | None:
        if not self._kinds:
            return _answer(await self._database.row(statement.answering, **arguments))
        record = await self._database.row(statement.answering_under(**self._kinds), **arguments, **self._under)
        self.held = "attempt" in self._kinds or "lease" in self._kinds
        return _answer(record)


class Transaction:
    """Reads and writes inside one transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def rows(self, statement: Statement, **arguments: Any) -> list[asyncpg.Record]:
        """Run one statement. An error ends the transaction."""
        try:
            return await self.connection.fetch(statement.text, *statement.bind(arguments))  # type: ignore[no-any-return]
        except AppError:
            raise
        except Exception as error:
            if is_retryable(error):
                raise
            raise explain(error) from error

    async def row(self, statement: Statement, **arguments: Any) -> asyncpg.Record | None:
        """The first row of one statement, or None."""
        found = await self.rows(statement, **arguments)
        return found[0] if found else None

    async def answer(
        self,
        statement: Statement,
        if_new: Statement | None = None,  # noqa: ARG002 - its error would end the transaction
        /,
        **arguments: Any,
    ) -> Answer | None:
        """Run the statement that decides."""
        return _answer(await self.row(statement.answering, **arguments))


def _answer(record: asyncpg.Record | None) -> Answer | None:
    if record is None or record["status"] is None:
        return None
    return Answer(
        record["status"],
        record["body"],
        record["etag"],
        kept=record.get("kept"),
        moved=record.get("moved") or (),
    )


def _session(settings: DatabaseSettings, name: str) -> dict[str, str]:
    return {
        "application_name": name,
        "timezone": "UTC",
        "jit": "off",
        "statement_timeout": str(int(settings.statement_seconds * 1000)),
        "lock_timeout": str(int(settings.lock_seconds * 1000)),
        "idle_in_transaction_session_timeout": str(int(settings.idle_transaction_seconds * 1000)),
    }
