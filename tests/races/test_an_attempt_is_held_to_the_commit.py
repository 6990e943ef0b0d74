"""B11: a write under an attempt and the end of that attempt meet, and are made to: whichever was first is first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import httpx
import pytest

from app.db.sql import Statement
from app.http import idempotency
from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.submissions.calls import Calls
from tests.submissions.queue import claim_next
from tests.waiting import eventually, held_up

UNDER = {"submission-attempt": "sub;att"}
BATCH = {"operations": [{"method": "PUT", "path": "/v1/workflows/w", "body": {"name": "written"}}]}
# One statement; a transaction; a batch.
WRITES = [
    ("PUT", "/v1/workflows/w", {"name": "written"}),
    ("POST", "/v1/batch", BATCH),
    ("DELETE", "/v1/workflows/w", None),
]
# As the service's own calls do it, within transactions that the test ends.
SETTLE = "SELECT count(*) FROM cairn_settle($1, $2, 'running', $3, NULL, 'completed', NULL)"
REPLACE = "UPDATE submissions SET attempt_id = $4 WHERE tenant_id = $1 AND id = $2 AND attempt_id = $3"
RENEW = """
UPDATE submissions SET lease_expires_at = clock_timestamp(), lease_lapses_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2 AND attempt_id = $3
"""
ENDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "settled": (SETTLE, ()),
    "replaced": (REPLACE, ("next",)),
    "returned": ("SELECT count(*) FROM cairn_return($1, $2, $3, interval '0', NULL)", ()),
}
Open = Callable[[], Awaitable[asyncpg.Connection]]


@pytest.fixture
async def opened(fresh: Service) -> AsyncIterator[Open]:
    """Opens connections beside the service's."""
    connections: list[asyncpg.Connection] = []

    async def one() -> asyncpg.Connection:
        connections.append(await asyncpg.connect(fresh.ground.database.url))
        return connections[-1]

    yield one
    for connection in connections:
        await connection.close()


@pytest.fixture
async def writer(fresh: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant with a workflow, and a submission that an attempt runs."""
    async with await new_tenant(fresh) as client:
        await Make(client).workflow(id="w")
        await Calls(client).running("sub", "att")
        yield client


def key(client: httpx.AsyncClient) -> tuple[str, str, str]:
    """The tenant, the submission and its attempt."""
    return client.headers["x-test-tenant"], "sub", "att"


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[1])
async def test_an_end_that_begins_while_a_write_is_open_waits_for_it(
    write: tuple[str, str, object], end: str, writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    method, path, body = write
    holder, ender = await opened(), await opened()
    statement, more = ENDS[end]
    async with holder.transaction():
        # The write stands before its last lock, with the attempt in its hand.
        await holder.execute("SELECT FROM workflows WHERE id = 'w' FOR UPDATE")
        writing = asyncio.create_task(writer.request(method, path, json=body, headers=UNDER))
        await held_up(fresh)
        ending = asyncio.create_task(ender.fetchval(statement, *key(writer), *more))
        await held_up(fresh, 2)
        assert not writing.done()
        assert not ending.done()
    written = await writing
    assert written.is_success, written.text
    await ending
    again = await writer.put("/v1/workflows/w", json={"name": "too late"}, headers=UNDER)
    assert (again.status_code, again.json()["code"]) == (409, "stale_attempt")
    assert again.json()["attempt_id"] == ("next" if end == "replaced" else None)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[1])
async def test_a_write_that_begins_while_an_end_is_open_waits_and_is_refused(
    write: tuple[str, str, object], end: str, writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    method, path, body = write
    ender = await opened()
    statement, more = ENDS[end]
    async with ender.transaction():
        await ender.fetchval(statement, *key(writer), *more)
        writing = asyncio.create_task(writer.request(method, path, json=body, headers=UNDER))
        await held_up(fresh)
        assert not writing.done()
    refused = await writing
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_attempt"), refused.text
    assert refused.json()["attempt_id"] == ("next" if end == "replaced" else None)
    assert (await writer.get("/v1/workflows/w")).json()["name"] is None


async def test_a_write_waits_for_an_end_that_is_undone_and_then_happens(
    writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    ender = await opened()
    undone = ender.transaction()
    await undone.start()
    await ender.fetchval(SETTLE, *key(writer))
    writing = asyncio.create_task(writer.put("/v1/workflows/w", json={"name": "written"}, headers=UNDER))
    await held_up(fresh)
    await undone.rollback()
    assert (await writing).status_code == 200


async def test_renewals_and_writes_pass_each_other(writer: httpx.AsyncClient, fresh: Service, opened: Open) -> None:
    renewer = await opened()
    async with renewer.transaction():
        await renewer.execute(RENEW, *key(writer))
        async with asyncio.timeout(10):
            assert (await writer.put("/v1/workflows/w", json={"name": "one"}, headers=UNDER)).status_code == 200
    async with fresh.ground.database.writing() as transaction:
        statement = Statement("SELECT cairn_hold_attempt(:tenant, 'sub', 'att')")
        await transaction.row(statement, tenant=key(writer)[0])
        async with asyncio.timeout(10):
            await renewer.execute(RENEW, *key(writer))
            # Many writes under one attempt do not wait for each other either.
            assert (await writer.put("/v1/workflows/x", json={}, headers=UNDER)).status_code == 201


async def test_holding_an_attempt_does_not_read_all_that_run(writer: httpx.AsyncClient, opened: Open) -> None:
    connection, tenant = await opened(), key(writer)[0]
    await asyncio.gather(*(Make(writer).submission(id=f"s{number}", session_key=f"s{number}") for number in range(300)))
    claimed = [item for _ in range(3) for item in await claim_next(writer, limit=100)]
    assert len(claimed) == 300
    # The kept plan too, and before anybody has counted the rows: any index that begins with the tenant is as good.
    for item in claimed[:8]:
        await connection.execute("SELECT cairn_hold_attempt($1, $2, $3)", tenant, item["id"], item["attempt_id"])
    async with connection.transaction():
        read = await connection.fetchval(
            "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'submissions'"
        )
    assert read < 300


async def test_an_open_transaction_holds_the_attempt_from_its_first_statement(
    writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    ender = await opened()
    async with fresh.ground.database.writing() as transaction:
        await transaction.row(idempotency._HOLD, tenant_id=key(writer)[0], submission_id="sub", attempt_id="att")
        ending = asyncio.create_task(ender.fetchval(SETTLE, *key(writer)))
        await held_up(fresh)

    async def ended() -> bool:
        return ending.done()

    await eventually(ended, "the end")
    assert await ending == 1
