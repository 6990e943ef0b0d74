"""Renewals that only Redis has: what they hold up, and what becomes of them where Redis cannot be seen or forgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import pytest
import redis as library

from app.embedded import Servers
from app.http.service import Service
from app.leases.liveness import LENGTHS, Liveness, Sight
from tests.leases.seeing import Two, both
from tests.payloads import problem
from tests.waiting import eventually


@pytest.fixture
async def two(services: dict[str, Service]) -> AsyncIterator[Two]:
    async with both(services) as made:
        yield made


async def test_a_renewal_costs_postgresql_nothing_and_is_seen_by_whoever_reads(two: Two) -> None:
    leases = two.seeing
    token = await leases.acquire("a", lease_seconds=60)
    first = await leases.renew("a", token)
    stood = await two.row()
    assert datetime.fromisoformat(first["expires_at"]) == stood["expires_at"]
    assert round((stood["carried_until"] - stood["expires_at"]).total_seconds()) == 60 * (LENGTHS - 1)
    renewed = [await leases.renew("a", token) for _ in range(5)]
    assert dict(await two.row()) == dict(stood)
    assert [*renewed] == sorted(renewed, key=lambda lease: lease["expires_at"])
    shown = (await leases.client.get("/v1/leases/l")).json()
    assert shown == renewed[-1] == (await leases.client.get("/v1/leases")).json()["items"][0]
    assert datetime.fromisoformat(shown["expires_at"]) > stood["expires_at"]


async def test_what_only_redis_knows_to_live_is_not_taken_and_lapses_there(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=2)
    await two.carried("a", 1)
    refused = await two.seeing.ask("acquire", holder="b")
    assert problem(refused) == (409, "lease_held")
    assert refused.json()["expires_at"] > (await two.row())["expires_at"].isoformat()
    # Long before PostgreSQL alone would know.
    assert await two.seeing.acquired("b") == 2
    row = await two.row()
    assert (row["fencing_token"], row["carried_until"]) == (2, None)
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")


async def test_who_cannot_see_redis_waits_until_it_cannot_carry_the_lease_any_more(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=1)
    await two.carried("a", 1)
    until = (await two.row())["carried_until"]
    assert problem(await two.blind.ask("acquire", holder="b")) == (409, "lease_held")
    assert await two.blind.acquired("b") == 2
    taken = (await two.blind.client.get("/v1/leases/l")).json()
    assert datetime.fromisoformat(taken["acquired_at"]) >= until
    # A lease that Redis never carried, and one that is released, need no such wait.
    await two.blind.acquire("a", lease_seconds=1, name="never")
    assert await two.blind.acquired("b", name="never") == 2
    await two.blind.release("b", 2)
    assert await two.blind.acquire("c") == 3


async def test_redis_renews_nothing_beyond_what_postgresql_knows(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=1)
    await two.seeing.renew("a", 1)
    until = (await two.row())["carried_until"]

    async def renewed_there() -> bool:
        lease = await two.seeing.renew("a", 1)
        row = await two.row()
        assert datetime.fromisoformat(lease["expires_at"]) <= row["carried_until"]
        return row["carried_until"] != until

    await eventually(renewed_there, "a renewal in PostgreSQL")


async def test_a_renewal_without_redis_leaves_what_redis_may_carry(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=30)
    await two.seeing.renew("a", 1)
    before = await two.row()
    await two.blind.renew("a", 1)
    after = await two.row()
    assert after["expires_at"] > before["expires_at"]
    assert after["carried_until"] == before["carried_until"]
    # Redis still carries it, and goes on.
    assert (await two.seeing.renew("a", 1))["expires_at"] > after["expires_at"].isoformat()[:19]


async def test_a_renewal_that_belongs_to_a_transaction_is_postgresql_s(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=60)
    await two.seeing.renew("a", 1)
    body = {"holder": "a", "fencing_token": 1}
    batch = {"operations": [{"method": "POST", "path": "/v1/leases/l/renew", "body": body}]}
    for headers in ({"idempotency-key": "k"}, {"lease": "l;1"}):
        before = (await two.row())["expires_at"]
        assert (await two.seeing.client.post("/v1/leases/l/renew", json=body, headers=headers)).status_code == 200
        assert (await two.row())["expires_at"] > before
    before = (await two.row())["expires_at"]
    assert (await two.seeing.client.post("/v1/batch", json=batch)).status_code == 200
    assert (await two.row())["expires_at"] > before


async def test_another_length_holds_from_the_next_renewal_on(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=3600)
    for _ in range(2):
        await two.seeing.renew("a", 1)
    extended = await two.seeing.done("acquire", holder="a", lease_seconds=1)
    assert extended["fencing_token"] == 1
    for _ in range(2):
        renewed = await two.seeing.renew("a", 1)
        assert renewed["lease_seconds"] == 1
    assert await two.seeing.acquired("b") == 2


async def test_what_is_released_is_free_at_once_and_carried_no_more(two: Two) -> None:
    await two.seeing.acquire("a")
    for _ in range(2):
        await two.seeing.renew("a", 1)
    await two.seeing.release("a", 1)
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
    assert await two.seeing.acquire("b") == 2
    # Released where Redis was not seen, it is free all the same: what lies there is of no holder.
    for _ in range(2):
        await two.seeing.renew("b", 2)
    await two.blind.release("b", 2)
    assert await two.seeing.acquire("c") == 3


async def test_what_reaches_redis_late_or_out_of_turn_carries_nothing(two: Two) -> None:
    liveness = Liveness(two.service.ground.cache)
    taken = await two.seeing.client.post("/v1/leases/l/acquire", json={"holder": "a", "lease_seconds": 30})
    asked_at = (await liveness.renew(two.tenant_id, "l", "a", 1)).asked_at
    assert asked_at is not None
    await liveness.carry(two.tenant_id, "l", taken.content, asked_at - 30_000)
    assert await liveness.look(two.tenant_id, ["l"]) == [Sight(seen=True)]
    await two.seeing.release("a", 1)
    later = await two.seeing.client.post("/v1/leases/l/acquire", json={"holder": "b"})
    await liveness.carry(two.tenant_id, "l", later.content, asked_at)
    await liveness.carry(two.tenant_id, "l", taken.content, asked_at)
    (sight,) = await liveness.look(two.tenant_id, ["l"])
    assert sight.token == 2
    assert (await liveness.renew(two.tenant_id, "l", "a", 1)).lease is None
    assert (await liveness.renew(two.tenant_id, "l", "a", 2)).lease is None
    assert (await liveness.renew(two.tenant_id, "l", "b", 2)).lease is not None


async def test_b27_who_lost_its_lease_neither_frees_the_next_holder_s_nor_writes(two: Two) -> None:
    # A takes it for a second, renews once in Redis, and works on for longer than that.
    a = await two.seeing.acquire("a", lease_seconds=1)
    for _ in range(2):
        await two.seeing.renew("a", a)
    b = await two.seeing.acquired("b", lease_seconds=30)
    # A finishes: its release frees nothing, and C is told who has it.
    assert problem(await two.seeing.ask("release", holder="a", fencing_token=a)) == (409, "lease_lost")
    refused = await two.seeing.ask("acquire", holder="c")
    assert problem(refused) == (409, "lease_held")
    assert (refused.json()["holder"], refused.json()["fencing_token"]) == ("b", b)
    await two.seeing.renew("b", b)


async def test_b27_a_flushed_redis_hands_the_lease_over_and_only_the_new_holder_writes(
    two: Two, servers: Servers
) -> None:
    a = await two.seeing.acquire("a", lease_seconds=2)
    await two.carried("a", a)
    with library.Redis.from_url(servers.redis_url) as flushing:
        flushing.flushall()
    b = await two.seeing.acquire("b")
    assert b == a + 1
    client = two.seeing.client
    lost = await client.put("/v1/workflows/w", json={"name": "a's"}, headers={"lease": f"l;{a}"})
    assert problem(lost) == (409, "stale_lease")
    assert (lost.json()["current_token"], lost.json()["holder"]) == (b, "b")
    assert (await client.put("/v1/workflows/w", json={"name": "b's"}, headers={"lease": f"l;{b}"})).is_success
    lost = await client.put("/v1/workflows/w", json={"name": "a's"}, headers={"lease": f"l;{a}"})
    assert problem(lost) == (409, "stale_lease")
    assert (await client.get("/v1/workflows/w")).json()["name"] == "b's"
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=a)) == (409, "lease_lost")


async def test_a_flushed_redis_is_not_noticed_by_who_renews_in_time(two: Two, servers: Servers) -> None:
    token = await two.seeing.acquire("a")
    with library.Redis.from_url(servers.redis_url) as flushing:
        for _ in range(3):
            await two.seeing.renew("a", token)
            flushing.flushall()
    assert problem(await two.seeing.ask("acquire", holder="b")) == (409, "lease_held")
    assert (await two.seeing.renew("a", token))["fencing_token"] == token
