"""What PostgreSQL decides and what Redis carries are two steps: in no order of them do two hold a lease at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from app.cache.cache import Cache
from app.http.service import Service
from app.leases import store
from app.leases.errors import LeaseHeld
from app.leases.liveness import Liveness, Sight
from tests.leases.seeing import Two, both
from tests.payloads import problem
from tests.waiting import eventually


@pytest.fixture
async def two(services: dict[str, Service]) -> AsyncIterator[Two]:
    async with both(services) as made:
        yield made


def change(which: str, **body: Any) -> dict[str, Any]:
    """An operation of a batch about the lease."""
    return {"method": "POST", "path": f"/v1/leases/l/{which}", "body": body}


class Delayed(Liveness):
    """Signs of life that are looked at in time, and used late."""

    def __init__(self, cache: Cache, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__(cache)
        self._meanwhile = meanwhile

    async def look(self, tenant_id: str, names: Sequence[str]) -> list[Sight]:
        """What is seen, told after what happens meanwhile."""
        found = await super().look(tenant_id, names)
        await self._meanwhile()
        return found


@pytest.mark.parametrize(
    "operation", [change("release", holder="a", fencing_token=1), change("acquire", holder="a", lease_seconds=3)]
)
async def test_a_batch_that_fails_leaves_a_lease_as_it_was_carried(two: Two, operation: dict[str, Any]) -> None:
    await two.seeing.acquire("a", lease_seconds=2)
    await two.carried("a", 1)
    operations = [operation, {"method": "GET", "path": "/v1/workflows/absent"}]
    assert (await two.seeing.client.post("/v1/batch", json={"operations": operations})).status_code == 404
    assert problem(await two.seeing.ask("acquire", holder="b")) == (409, "lease_held")
    assert (await two.seeing.renew("a", 1))["fencing_token"] == 1


async def test_a_batch_that_succeeds_ends_what_was_carried(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=60)
    await two.carried_there("a", 1)
    operations = [change("release", holder="a", fencing_token=1), change("acquire", holder="b", lease_seconds=60)]
    answer = await two.seeing.client.post("/v1/batch", json={"operations": operations})
    assert [each["body"]["fencing_token"] for each in answer.json()["results"]] == [1, 2]
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
    await two.carried_there("b", 2)
    # Another length of the same lease, too.
    answer = await two.seeing.client.post(
        "/v1/batch", json={"operations": [change("acquire", holder="b", lease_seconds=30)]}
    )
    assert answer.status_code == 200
    assert (await two.seeing.renew("b", 2))["lease_seconds"] == 30


async def test_what_was_seen_before_a_renewal_takes_no_lease_after_it(two: Two) -> None:
    # A's key in Redis was forgotten; while B is on its way from there to PostgreSQL, A comes back and is carried.
    await two.seeing.acquire("a", lease_seconds=1)

    async def meanwhile() -> None:
        await two.carried("a", 1)

    database = two.service.ground.database
    delayed = Delayed(two.service.ground.cache, meanwhile)
    for _ in range(2):
        with pytest.raises(LeaseHeld):
            await store.acquire(database.once(two.tenant_id), delayed, two.tenant_id, "l", "b", 30)
        assert (await two.seeing.renew("a", 1))["holder"] == "a"

    async def over() -> bool:
        return bool((await two.row())["lapsed"])

    # The same where its end had passed when B began, and nothing was seen.
    await eventually(over, "the end of the lease")
    try:
        await store.acquire(database.once(two.tenant_id), delayed, two.tenant_id, "l", "b", 30)
    except LeaseHeld:
        assert (await two.seeing.renew("a", 1))["holder"] == "a"
    else:
        pytest.fail("B took what A held")


async def test_a_renewal_that_comes_late_carries_nothing_that_was_released(two: Two) -> None:
    liveness = Liveness(two.service.ground.cache)
    taken = await two.seeing.client.post("/v1/leases/l/acquire", json={"holder": "a", "lease_seconds": 30})
    asked_at = (await liveness.renew(two.tenant_id, "l", "a", 1)).asked_at
    assert asked_at is not None
    await two.seeing.release("a", 1)
    await liveness.carry(two.tenant_id, "l", taken.content, asked_at)
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
    # The next holder changes nothing about that, and is carried as ever.
    assert await two.seeing.acquire("b") == 2
    await liveness.carry(two.tenant_id, "l", taken.content, asked_at)
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
    await two.carried_there("b", 2)
    # What ends late ends nothing of a later token.
    await liveness.end(two.tenant_id, "l", taken.content)
    assert (await liveness.renew(two.tenant_id, "l", "b", 2)).lease is not None


async def test_a_lease_whose_release_ended_before_redis_heard_of_it_is_not_renewed_there(two: Two) -> None:
    await two.seeing.acquire("a", lease_seconds=60)
    await two.carried_there("a", 1)
    # The process that released it ended at once.
    database = two.service.ground.database
    await store.release(database.once(two.tenant_id), two.tenant_id, "l", "a", 1)
    assert await two.seeing.acquire("b", lease_seconds=60) == 2
    assert problem(await two.seeing.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
