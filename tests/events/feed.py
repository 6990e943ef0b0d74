"""The feed of events as its readers see it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.db.sql import Statement
from tests.http.toys import Process, Stream
from tests.waiting import eventually

EVENTS = "/v1/events"
STREAM = {"accept": "text/event-stream"}
# Events that no request makes: $3 of the type $1, about workflows whose names begin with $2.
INSERT = (
    "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
    " SELECT 'acme', $1, 'workflow', $2 || n, '{\"of\":\"nothing\"}' FROM generate_series(1, $3::bigint) AS n"
)


@asynccontextmanager
async def following(client: httpx.AsyncClient, last: str | None = None, **query: Any) -> AsyncIterator[Stream]:
    """A reader of the stream, from behind an event where one is named."""
    headers = STREAM if last is None else {**STREAM, "last-event-id": last}
    async with client.stream("GET", EVENTS, params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["vary"] == "Accept"
        yield Stream(answer)


async def refused(client: httpx.AsyncClient, last: str | None = None, **query: Any) -> httpx.Response:
    """The refusal of a stream."""
    headers = STREAM if last is None else {**STREAM, "last-event-id": last}
    return await client.get(EVENTS, params=query, headers=headers)


async def read(stream: Stream) -> tuple[str, dict[str, Any]]:
    """The next event: its id, and its data read."""
    name, kind, data = await stream.event()
    assert kind == "message", data
    assert name is not None
    return name, json.loads(data)


async def page(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    """A page of the list."""
    answer = await client.get(EVENTS, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def change(client: httpx.AsyncClient, name: str, **metadata: Any) -> None:
    """Make a workflow, which is an event."""
    answer = await client.put(f"/v1/workflows/{name}", json={"metadata": metadata})
    assert answer.status_code == 201, answer.text


async def head(one: Process, position: int) -> None:
    """Return once so many events have a position."""
    statement = Statement("SELECT position FROM event_heads WHERE tenant_id = 'acme'")

    async def there() -> bool:
        row = await one.service.ground.database.row(statement)
        return row is not None and row["position"] >= position

    await eventually(there, f"{position} events")
