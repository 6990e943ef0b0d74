"""A domain of the tests that is read live: toys, appended to rows of numbers. Each server is one API process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import httpx
from pydantic import Field
from starlette.responses import Response

from app import main
from app.bus.hints import Key
from app.bus.watcher import Wake, Watched
from app.commands.listening import PatientServer, bound_socket, server_config
from app.db.database import Answer, Database
from app.db.sql import Statement
from app.errors import NotFound
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.event import Event, documented
from app.http.fields import Query
from app.http.router import Router
from app.http.service import Service
from app.settings import Settings
from tests.conftest import ADMIN_KEY
from tests.waiting import eventually

SETUP = "CREATE TABLE toys (name text NOT NULL, seq bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (name, seq))"
KIND = "toy"
GONE = b"gone"
PAGE = 3
_APPEND = Statement(
    "WITH made AS (INSERT INTO toys (name, seq, data) SELECT :name, count(*) + 1, :data FROM toys WHERE name = :name"
    " RETURNING seq), answer AS (SELECT 201 AS status, NULL::bigint AS etag, to_json(seq)::json AS body FROM made)"
)
_READ = Statement(f"SELECT seq, data FROM toys WHERE name = :name AND seq > :after ORDER BY seq LIMIT {PAGE}")
_MOVED = Statement(
    "SELECT w.name, w.mark FROM unnest(:names::text[], :marks::bigint[]) AS w(name, mark)"
    " WHERE EXISTS (SELECT FROM toys WHERE toys.name = w.name AND toys.seq > w.mark)"
)
routes = Routes("toys")


class Toy(Query):
    """Which row, after which toy, and how long to wait for the next."""

    name: str
    after: int = 0
    seconds: float = Field(0, ge=0, le=60)


async def moved(database: Database, watched: Collection[Watched]) -> Collection[Watched]:
    """The rows that have toys after their reader's mark."""
    names, marks = [item.key.name for item in watched], [item.mark or 0 for item in watched]
    found = await database.rows(_MOVED, names=names, marks=marks)
    return [Watched(Key(KIND, "acme", row["name"]), row["mark"]) for row in found]


async def _read(call: Call, name: str, after: int) -> list[tuple[int, bytes]]:
    rows = await call.reader.rows(_READ, name=name, after=after)
    if any(row["data"] == GONE for row in rows):
        raise NotFound("The toys are gone.")
    return [(row["seq"], row["data"]) for row in rows]


@routes.post("/v1/toys", scope="toys:write")
async def append(call: Call, query: Toy) -> Answer:
    """Append the body as a toy."""
    answer = await call.writer.answer(_APPEND, name=query.name, data=call.headers["toy"].encode("latin-1"))
    call.moved.append(Key(KIND, "acme", query.name))
    assert answer is not None
    return answer


@routes.get("/v1/toys", scope="toys:read")
async def poll(call: Call, query: Toy) -> Answer:
    """The toys after one, waiting for the next."""

    async def read(wake: Wake) -> list[tuple[int, bytes]]:
        wake.mark = query.after
        return await _read(call, query.name, query.after)

    found = await call.ground.live.poll(call, [Key(KIND, "acme", query.name)], query.seconds, read, bool)
    return Answer(200, b"[%b]" % b",".join(b"%d" % seq for seq, _ in found))


@routes.get("/v1/toys/events", scope="toys:read", response_class=Response, responses=documented())
async def events(call: Call, query: Toy) -> Response:
    """The toys as a stream."""

    async def read(after: int) -> tuple[Sequence[Event], int]:
        found = await _read(call, query.name, after)
        return [Event(data, str(seq)) for seq, data in found], found[-1][0] if found else after

    after = int(call.headers.get("last-event-id", query.after))
    return call.ground.live.stream(call, Key(KIND, "acme", query.name), read, after)


class Process:
    """One API process, within this one: its server, its service, and a client of it."""

    def __init__(self, server: PatientServer, service: Service, client: httpx.AsyncClient, serving: object) -> None:
        self.server, self.service, self.client, self.serving = server, service, client, serving

    async def add(self, name: str, *data: str) -> None:
        """Append toys."""
        for toy in data:
            answer = await self.client.post("/v1/toys", params={"name": name}, headers={"toy": toy})
            assert answer.status_code == 201, answer.text

    def stop(self) -> None:
        """Begin to stop, as at SIGTERM."""
        self.server.should_exit = True

    async def readers(self, count: int) -> None:
        """Return once so many readers wait."""

        async def waiting() -> bool:
            return self.service.ground.live.readers == count

        await eventually(waiting, f"{count} readers")


@asynccontextmanager
async def process(settings: Settings) -> AsyncIterator[Process]:
    """An API process with toys; `main.WATCHED` must know them."""
    service = main.create_app(settings)
    service.endpoints = [*service.endpoints, *routes]
    service.paths = Router(service.endpoints)
    opened = bound_socket(settings)
    config = server_config(settings)
    config.app, config.factory = service, False
    server = PatientServer(config)
    serving = asyncio.create_task(server.serve(sockets=[opened]))
    url = "http://{}:{}".format(*opened.getsockname()[:2])
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    async with httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=60,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
    ) as client:

        async def started() -> bool:
            return bool(server.started) or serving.done()

        await eventually(started, "the server")
        try:
            made = await client.put("/v1/tenants/acme", json={})
            assert made.status_code in (200, 201), made.text
            client.headers["x-tenant-id"] = "acme"
            yield Process(server, service, client, serving)
        finally:
            server.should_exit = True
            await serving


class Stream:
    """An event stream as a client reads it: events as (id, type, data), comments as None."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str | None, str, str] | None:
        """The next event, or None for a comment. Raises `StopAsyncIteration` at the end."""
        id_, type_, data = None, "message", []
        async for line in self._lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                id_ = value
            elif name == "event":
                type_ = value
            elif name == "data":
                data.append(value)
            elif not line:
                return (id_, type_, "\n".join(data)) if data else None
        raise StopAsyncIteration

    async def event(self) -> tuple[str | None, str, str]:
        """The next event, past comments."""
        async with asyncio.timeout(20):
            while (found := await self.next()) is None:
                pass
            return found

    async def rest(self) -> list[tuple[str | None, str, str]]:
        """Every event up to the end of the stream, which must be an orderly one."""
        found = []
        async with asyncio.timeout(20):
            while True:
                try:
                    one = await self.next()
                except StopAsyncIteration:
                    return found
                if one is not None:
                    found.append(one)


@asynccontextmanager
async def stream(client: httpx.AsyncClient, name: str, **headers: str) -> AsyncIterator[Stream]:
    """A reader of a row of toys."""
    async with client.stream("GET", "/v1/toys/events", params={"name": name}, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Stream(answer)
