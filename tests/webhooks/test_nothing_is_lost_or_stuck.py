"""B31, B36: whatever ends in between, an event reaches its endpoint or becomes a dead letter, and nothing is stuck."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg
import httpx
import nats
import pytest

from app.background.delivering import Delivering
from app.background.runner import Runner, drain
from app.bus.declared import declared
from app.bus.jetstream import JetStreams
from app.bus.tolerant_work import TolerantStreams
from app.bus.work import EmbeddedStreams, Stream, Work
from app.db.database import Database
from app.db.sql import Statement
from app.embedded import Servers
from app.http.metrics import Metrics
from app.http.service import Service
from app.settings import DatabaseSettings, NatsSettings, WebhookSettings
from app.surface import SUBJECTS
from app.webhooks.fanout import fan_out
from app.webhooks.policy import Again, Delivered
from app.webhooks.sender import Outcome
from app.webhooks.settling import Result, Settled, Settler
from tests.api_process import ApiProcess, serving
from tests.conftest import ADMIN_KEY, Make
from tests.waiting import eventually
from tests.webhooks.pipeline import ALLOWED, deliveries, delivering, sequenced, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]
# Nobody listens there.
AWAY = "nats://127.0.0.1:1"
TENANT = "acme"


def bus_of(servers: Servers) -> dict[str, str]:
    """Streams of a test alone."""
    name = f"t{uuid.uuid4().hex[:12]}"
    return {"url": servers.nats_url, "stream_prefix": name, "subject_prefix": name}


def given(settings: dict[str, dict[str, Any]]) -> dict[str, object]:
    """Settings as a process takes them."""
    return {f"{group}__{name}": value for group, values in settings.items() for name, value in values.items()}


async def in_queue(servers: Servers, prefix: str) -> int:
    """How many messages the stream of work holds."""
    client = await nats.connect(servers.nats_url)
    try:
        info = await client.jetstream().stream_info(f"{prefix}_webhook_queued")
        return int(info.state.messages)
    finally:
        await client.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """The database of the processes that a test starts, with a tenant."""
    database = await Database.open(DatabaseSettings(url=url, pool_min=0))
    try:
        await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES (:t)"), t=TENANT)
        yield database
    finally:
        await database.close()


def client_of(api: ApiProcess) -> httpx.AsyncClient:
    """The operator, for the tenant."""
    return httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {ADMIN_KEY}", "x-tenant-id": TENANT}, timeout=60
    )


@pytest.mark.parametrize("nats_url", [None, AWAY], ids=["alone", "with NATS away"])
async def test_what_was_answered_is_delivered_by_who_comes_after_a_kill(clone: Clone, nats_url: str | None) -> None:
    url = await clone()
    bus = {"nats": {"url": nats_url}} if nats_url else {}
    settings = given({"webhooks": ALLOWED | {"hand_out_seconds": 1}, "background": {"enabled": True}, **bus})
    async with receiving() as receiver, opened(url) as database:
        await subscribe(database, TENANT, receiver.url)
        for n in range(2):
            with serving(url, **settings) as api:
                async with client_of(api) as client:
                    assert (await client.put(f"/v1/workflows/w{n}", json={})).status_code == 201
                    api.send(signal.SIGKILL)
        with serving(url, **settings):
            await receiver.until(lambda: {each.says["data"]["id"] for each in receiver.received} == {"w0", "w1"})


async def test_a_delivery_that_kills_its_worker_becomes_a_dead_letter(clone: Clone, servers: Servers) -> None:
    url, bus = await clone(), bus_of(servers)
    settings = given(
        {
            "webhooks": ALLOWED | {"schedule": "0.1", "attempt_seconds": 1, "hand_out_seconds": 1},
            "background": {"enabled": True},
            "nats": bus,
        }
    )
    running: list[ApiProcess] = []

    async def kill(_received: Received) -> int:
        running[-1].send(signal.SIGKILL)
        return 204

    async with receiving() as receiver, opened(url) as database:
        receiver.answer = kill
        await subscribe(database, TENANT, receiver.url)
        for attempt in range(2):
            with closing(ApiProcess(url, **settings)) as api:
                running.append(api)
                if attempt == 0:
                    async with client_of(api) as client:
                        await client.put("/v1/workflows/w", json={})
                await receiver.until(lambda attempt=attempt: len(receiver.received) > attempt)  # type: ignore[misc]
                api.wait()
        with serving(url, **settings):

            async def given_up() -> list[Any]:
                return await database.rows(Statement("SELECT * FROM dead_letters"))

            (letter,) = await eventually(given_up, "the dead letter")
            assert (letter["source"], letter["reason"], letter["attempts"]) == ("webhook", "attempts_exhausted", 2)
            assert letter["last_error"] == "The process ended during the attempt."
            attempts = await database.rows(Statement("SELECT number, error FROM webhook_attempts ORDER BY number"))
            assert [each["number"] for each in attempts] == [1, 2]

            async def empty() -> bool:
                return await in_queue(servers, bus["stream_prefix"]) == 0

            await eventually(empty, "an empty queue")

            async def announced() -> list[Any]:
                return await database.rows(Statement("SELECT FROM dead_letters WHERE announced_at IS NOT NULL"))

            await eventually(announced, "the letter on the bus")
        assert len(receiver.received) == 2
        # It is told on the bus, with what was to be sent.
        client_ = await nats.connect(servers.nats_url)
        told = await client_.jetstream().get_msg(f"{bus['stream_prefix']}_webhook_dead_letter", 1)
        await client_.close()
        assert json.loads(told.data or b"")["event"] == receiver.received[0].says
        assert json.loads(told.data or b"")["subject"] == receiver.received[0].id


async def test_an_attempt_may_take_longer_than_the_queue_waits(clone: Clone, servers: Servers) -> None:
    """The queue hands out anew after a second what is not done; the endpoint takes six, beside two hundred others."""
    bus = NatsSettings(**bus_of(servers))  # type: ignore[arg-type]
    settings = WebhookSettings(**ALLOWED, concurrency=100, in_flight_max=200)  # type: ignore[arg-type]
    metrics = Metrics()
    async with receiving() as receiver, opened(await clone()) as database:
        slow = asyncio.Event()

        async def answer(received: Received) -> int:
            if received.path == "/slow":
                await slow.wait()
            return 204

        receiver.answer = answer
        embedded = EmbeddedStreams(1)
        url = bus.url.get_secret_value() if bus.url else ""
        streams = TolerantStreams(lambda: JetStreams(url, declared(bus, 1)), embedded)
        await streams.open()
        delivering = Delivering(settings, streams, metrics)
        runner, worker = Runner(delivering.entries(), database, metrics), delivering.worker(database, SUBJECTS)
        for name in ("slow", "quick"):
            await subscribe(database, TENANT, f"{receiver.url}/{name}", id=name)
        await database.rows(
            Statement(
                "WITH head AS (INSERT INTO event_heads (tenant_id, position) VALUES (:t, 200))"
                "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id,"
                " occurred_at, data) SELECT :t, n, now(), 'e' || n, 'workflow.created', 'workflow', 'w', now(), '{}'"
                " FROM generate_series(1, 200) AS n"
            ),
            t=TENANT,
        )
        runner.start()
        worker.start()
        try:
            await receiver.until(lambda: len(receiver.of("/quick")) == 200 and len(receiver.of("/slow")) == 100)
            with pytest.raises(TimeoutError):
                await receiver.until(lambda: len(receiver.of("/slow")) > 100, seconds=6)
            slow.set()
            await receiver.until(lambda: len(receiver.of("/slow")) == 200)
        finally:
            await asyncio.gather(runner.stop(), worker.stop())
            await streams.close()
        assert len({each.id for each in receiver.received}) == len(receiver.received) == 400
        rows = await database.rows(Statement("SELECT status, attempt_count FROM webhook_deliveries"))
        assert {tuple(row) for row in rows} == {("delivered", 1)}
        assert await in_queue(servers, bus.stream_prefix) == 0


async def test_what_a_process_had_under_way_goes_back_when_it_stops(clone: Clone) -> None:
    url = await clone()
    async with receiving() as receiver:
        hanging = asyncio.Event()

        async def hang(_received: Received) -> int:
            await hanging.wait()
            return 204

        receiver.answer = hang
        async with delivering(clone, url) as (service, client):
            tenant = tenant_of(client)
            await subscribe(service.ground.database, tenant, receiver.url)
            for n in range(3):
                await client.put(f"/v1/workflows/w{n}", json={})
            await receiver.until(lambda: receiver.open == 3)
        connection = await asyncpg.connect(url)
        rows = await connection.fetch("SELECT status, attempt_count, round_count FROM webhook_deliveries")
        errors = await connection.fetch("SELECT error FROM webhook_attempts")
        failing = await connection.fetchval("SELECT failing_since FROM webhooks")
        await connection.close()
        assert [tuple(row) for row in rows] == [("pending", 1, 0)] * 3
        assert {row["error"] for row in errors} == {"The process stopped during the attempt."}
        assert failing is None
        hanging.set()
        async with delivering(clone, url):
            await receiver.until(lambda: len(receiver.received) == 6 and not receiver.open)
        assert len({each.id for each in receiver.received}) == 3


async def test_events_that_commit_late_are_not_skipped(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        await subscribe(database, tenant, receiver.url)
        insert = Statement(
            "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
            " VALUES (:t, 'workflow.created', 'workflow', 'w', json_build_object('id', CAST(:id AS text)))"
        )
        async with database.writing() as late:
            await late.rows(insert, t=tenant, id="late")
            for n in range(5):
                await database.rows(insert, t=tenant, id=f"w{n}")
            await receiver.until(lambda: len(receiver.received) == 5)
        await receiver.until(lambda: len(receiver.received) == 6)
        assert receiver.received[-1].says["data"] == {"id": "late"}
        # What is rolled back is told to nobody.
        connection = await asyncpg.connect(database.url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(insert.text, tenant, "never")
        await transaction.rollback()
        await connection.close()
        await database.rows(insert, t=tenant, id="last")
        await receiver.until(lambda: len(receiver.received) == 7)
        assert receiver.received[-1].says["data"] == {"id": "last"}


async def test_a_webhook_made_while_events_flow_gets_those_after_it(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        stop = asyncio.Event()
        written = 0

        async def write() -> None:
            nonlocal written
            while not stop.is_set():
                await client.put(f"/v1/workflows/w{written}", json={})
                written += 1

        writing = asyncio.create_task(write())
        for n in range(8):
            await subscribe(database, tenant, f"{receiver.url}/{n}", id=f"wh{n}")
            await receiver.until(lambda n=n: len(receiver.of(f"/{n}")) > 3)  # type: ignore[misc]
        stop.set()
        await writing
        await sequenced(database)
        await drain(fan_out(lambda: None), database)
        for n in range(8):
            (row,) = await database.rows(
                Statement(
                    "SELECT array_agg(d.event_position ORDER BY d.event_position) AS got, ARRAY("
                    " SELECT e.position FROM events AS e, webhooks AS w WHERE e.tenant_id = :t AND w.tenant_id = :t"
                    " AND w.id = :w AND e.position > w.after_position ORDER BY e.position) AS wanted"
                    " FROM webhook_deliveries AS d WHERE d.tenant_id = :t AND d.webhook_id = :w"
                ),
                t=tenant,
                w=f"wh{n}",
            )
            assert row["got"] == row["wanted"]
        assert len(await deliveries(database, tenant, "wh0")) <= written + 1


async def test_a_message_that_is_none_of_ours_is_passed_over(clone: Clone) -> None:
    streams, metrics = EmbeddedStreams(1), Metrics()
    settings = WebhookSettings(**ALLOWED)  # type: ignore[arg-type]
    async with receiving() as receiver, opened(await clone()) as database:
        delivering = Delivering(settings, streams, metrics)
        runner, worker = Runner(delivering.entries(), database, metrics), delivering.worker(database, SUBJECTS)
        bodies = [b"", b"\xff", b"[]", b'{"tenant_id":1,"delivery_id":"d","dispatch":1}', b'{"tenant_id":"acme"}']
        bodies.append(b'{"tenant_id":"acme","delivery_id":"none","dispatch":1}')
        # What PostgreSQL could not even be asked for would fail all that was taken with it.
        for name, dispatch in (("none", 2**31), ("none", -(2**63)), ("no\\u0000ne", 1), ("\\ud800", 1)):
            bodies.append(b'{"tenant_id":"acme","delivery_id":"%s","dispatch":%d}' % (name.encode(), dispatch))
        bodies.append(b"[" * 100_000)
        await streams.put(Stream.QUEUED, [Work(str(n), body) for n, body in enumerate(bodies)])
        await subscribe(database, TENANT, receiver.url)
        runner.start()
        worker.start()
        try:
            await database.rows(
                Statement(
                    "INSERT INTO webhook_deliveries (tenant_id, webhook_id, event_type, body)"
                    " VALUES (:t, 'wh', 'webhook.test', '{}')"
                ),
                t=TENANT,
            )
            await receiver.until(lambda: len(receiver.received) == 1)

            async def empty() -> bool:
                return streams.empty

            await eventually(empty, "an empty queue")
        finally:
            await asyncio.gather(runner.stop(), worker.stop())


@pytest.mark.parametrize("size", [900_000, 1_048_576, 5_000_000])
async def test_an_event_larger_than_a_message_is_delivered(clone: Clone, servers: Servers, size: int) -> None:
    """B29: what travels on the bus refers to what is sent."""
    async with receiving() as receiver, delivering(clone, nats=bus_of(servers), schedule="0.01") as (_, client):
        await client.post(
            "/v1/webhooks",
            json={"url": receiver.url, "event_types": ["invocation.ended"], "include": ["output"]},
        )
        invocation = await Make(client).invocation()
        ended = await client.post(
            f"/v1/invocations/{invocation['id']}/end", json={"status": "completed", "output": "x" * size}
        )
        assert ended.status_code == 200
        await receiver.until(lambda: len(receiver.received) == 1)
        assert len(receiver.received[0].says["data"]["output"]) == size
        # Others are served as before.
        tested = await client.post(f"/v1/webhooks/{(await client.get('/v1/webhooks')).json()['items'][0]['id']}/test")
        assert tested.status_code == 202
        await receiver.until(lambda: len(receiver.received) == 2)


async def test_words_that_cannot_be_stored_hold_up_no_settlement(fresh: Service) -> None:
    database = fresh.ground.database
    await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES (:t)"), t=TENANT)
    rows = await database.rows(
        Statement(
            "INSERT INTO webhook_deliveries (tenant_id, webhook_id, event_type, body, status, lapses_at, attempt_count)"
            " SELECT :t, 'wh', 'webhook.test', '{}', 'sending', now() + interval '1 hour', 1 FROM generate_series(1, 5)"
            " RETURNING id, clock_timestamp() AS now"
        ),
        t=TENANT,
    )
    settled: list[Settled] = []
    settler = Settler(database, WebhookSettings(), lambda _count, found: settled.append(found))
    settler.start()
    for n, row in enumerate(rows):
        outcome = Outcome(500, "No.", "\x00" if n == 2 else "text", 1, None)
        settler.add(Result(TENANT, row["id"], 1, row["now"], outcome, Again(60) if n else Delivered(), None))

    async def all_settled() -> bool:
        return bool(settled)

    await eventually(all_settled, "the settlement")
    await settler.close()
    assert (settled, len(rows)) == ([Settled(pending=4, dead=0, disabled=0)], 5)
    attempts = await database.rows(Statement("SELECT response, error FROM webhook_attempts"))
    assert sorted(row["response"] or "" for row in attempts) == ["", "text", "text", "text", "text"]
