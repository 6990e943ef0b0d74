"""B15, B16, B17: clients that leave, clients that read slowly, and a database that ends its sessions."""

from __future__ import annotations

import asyncio
from asyncio import gather
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import httpx
import pytest

from tests.api_process import ApiProcess, serving
from tests.conftest import ADMIN_KEY, Make, new_tenant, running, settings_for
from tests.faults.holding import held, holding, prepare, until_held
from tests.waiting import eventually

POOL = 2
DROPPED = 200
HEADERS = {"authorization": f"Bearer {ADMIN_KEY}", "x-tenant-id": "acme"}


@pytest.fixture
async def served(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[ApiProcess, asyncpg.Connection]]:
    """The API with a pool of two, and a straight connection to its database."""
    url = await clone()
    connection = await asyncpg.connect(url)
    await prepare(connection)
    with serving(url, database__pool_min=0, database__pool_max=POOL, database__lock_seconds=30) as process:
        async with httpx.AsyncClient(base_url=process.url, headers={"authorization": HEADERS["authorization"]}) as http:
            assert (await http.put("/v1/tenants/acme", json={})).status_code == 201
        yield process, connection
    await connection.close()


async def sessions(connection: asyncpg.Connection, state: str = "%") -> int:
    """Sessions of the API in a state."""
    found: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cairn' AND state LIKE $1"
        " AND datname = current_database()",
        state,
    )
    return found


async def drop(process: ApiProcess, number: int, request: bytes) -> None:
    """Send a request, or half of it, and leave without reading a word."""
    host, _, port = process.url.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(request if number % 2 else request[: len(request) // 2])
    await writer.drain()
    writer.transport.abort()


async def test_b15_two_hundred_clients_that_leave_cost_no_connection(
    served: tuple[ApiProcess, asyncpg.Connection],
) -> None:
    process, connection = served
    body = b'{"id":"w","name":"n"}'
    lines = [f"{name}: {value}" for name, value in HEADERS.items()]
    request = "\r\n".join(
        ["POST /v1/workflows HTTP/1.1", "Host: x", *lines, "Content-Type: application/json",
         f"Content-Length: {len(body)}", "", ""]
    ).encode() + body  # fmt: skip
    async with httpx.AsyncClient(base_url=process.url, headers=HEADERS, timeout=30) as client:
        # Half of the pool is at work while they come and go.
        async with holding(connection, 1):
            held = asyncio.create_task(client.post("/v1/workflows", json={"id": "held"}))
            assert await until_held(connection, held)
            await gather(*(drop(process, number, request) for number in range(DROPPED)))
        assert (await held).status_code == 201
        assert (await client.get("/v1/workflows/held")).status_code == 200

        async def idle() -> bool:
            return await sessions(connection, "active") == 0 and await sessions(connection, "idle in%") == 0

        await eventually(idle, "a pool at rest")
        assert await sessions(connection) <= POOL
        answers = await gather(*(client.get("/v1/workflows") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert {item["id"] for item in answers[0].json()["items"]} <= {"held", "w"}


async def test_b15_a_transaction_whose_client_left_ends_and_gives_its_connection_back(
    served: tuple[ApiProcess, asyncpg.Connection],
) -> None:
    process, connection = served
    batch = {"operations": [{"method": "PUT", "path": f"/v1/workflows/w{n}", "body": {}} for n in range(3)]}
    async with holding(connection, 2), httpx.AsyncClient(base_url=process.url, headers=HEADERS) as leaving:
        request = asyncio.create_task(leaving.post("/v1/batch", json=batch))
        assert await until_held(connection, request)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    async def rest() -> bool:
        return await sessions(connection, "active") + await sessions(connection, "idle in%") == 0

    await eventually(rest, "the end of the transaction")
    assert await connection.fetchval("SELECT count(*) FROM workflows") in (0, 3)


async def test_b08_a_client_that_died_after_the_commit_finds_its_answer_again(
    served: tuple[ApiProcess, asyncpg.Connection],
) -> None:
    process, connection = served
    body = b'{"name":"n"}'
    lines = {**HEADERS, "idempotency-key": "k", "content-type": "application/json", "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    async with holding(connection, 1):
        host, _, port = process.url.removeprefix("http://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /v1/workflows HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
        await eventually(lambda: held(connection), "the statement")
        writer.transport.abort()

    async def committed() -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM idempotency_keys"))

    await eventually(committed, "the commit")
    async with httpx.AsyncClient(base_url=process.url, headers=HEADERS) as client:
        again = await client.post("/v1/workflows", content=body, headers={"idempotency-key": "k"})
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
        assert [item["id"] for item in (await client.get("/v1/workflows")).json()["items"]] == [again.json()["id"]]


@pytest.mark.parametrize("path", ["/v1/versions/big/dsl", "/v1/invocations/i/trace", "/v1/versions?include=dsl"])
async def test_b16_readers_that_do_not_read_hold_no_connection(
    served: tuple[ApiProcess, asyncpg.Connection], path: str
) -> None:
    process, connection = served
    host, _, port = process.url.removeprefix("http://").rpartition(":")
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()
    async with httpx.AsyncClient(base_url=process.url, headers=HEADERS, timeout=30) as client:
        content = b'{"id":"big","workflow":{},"dsl":"' + b"x" * 8_000_000 + b'"}'
        kind = {"content-type": "application/json"}
        assert (await client.post("/v1/workflows/w/versions", content=content, headers=kind)).status_code == 201
        assert (await client.post("/v1/invocations", json={"id": "i", "version_id": "big"})).status_code == 201
        slow = [await asyncio.open_connection(host, int(port), limit=1024) for _ in range(3 * POOL)]
        for reader, writer in slow:
            writer.write(request)
            # The answer has begun, and nobody takes the rest of it.
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        answers = await gather(*(client.get("/v1/workflows/w") for _ in range(10)))
        assert {answer.status_code for answer in answers} == {200}
        assert await sessions(connection, "active") + await sessions(connection, "idle in%") == 0
        for _, writer in slow:
            writer.transport.abort()


async def test_b17_after_the_database_ended_every_session_the_next_requests_recover_unaided(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        make = Make(client)
        await make.workflow(id="w")
        await gather(*(client.get("/v1/workflows") for _ in range(12)))
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        codes = [(await client.get("/v1/workflows/w")).status_code for _ in range(15)]
        assert set(codes) <= {200, 503}
        assert codes.count(503) <= 1, "one connection that was ended tells of them all"
        assert codes[-1] == 200
        written = [(await client.patch("/v1/workflows/w", json={"name": str(n)})).status_code for n in range(3)]
        assert written == [200] * 3
    await connection.close()


async def test_b17_a_pool_that_stays_busy_answers_503_within_its_bound_and_recovers(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    await prepare(connection)
    database = {"pool_max": 1, "acquire_seconds": 0.3, "lock_seconds": 30}
    async with running(settings_for(url, database=database)) as service, await new_tenant(service) as client:
        async with holding(connection, 1):
            busy = asyncio.create_task(client.post("/v1/workflows", json={"id": "w"}))
            assert await until_held(connection, busy)
            refused = await client.get("/v1/workflows")
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert refused.headers["retry-after"]
        assert (await busy).status_code == 201
        assert (await client.get("/v1/workflows")).status_code == 200
    await connection.close()
