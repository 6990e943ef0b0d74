"""B30: two services share a queue by mistake: what one took from the other is delivered later, and the log says why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from structlog.testing import capture_logs

from app.embedded import Servers
from tests.waiting import eventually
from tests.webhooks.pipeline import deliveries, delivering, subscribe, tenant_of
from tests.webhooks.receiving import receiving
from tests.webhooks.test_nothing_is_lost_or_stuck import bus_of

EVENTS = 20


async def test_what_the_other_took_is_handed_out_anew(clone: Callable[[], Awaitable[str]], servers: Servers) -> None:
    bus = bus_of(servers)
    with capture_logs() as logs:
        async with (
            receiving() as receiver,
            delivering(clone, nats=bus, hand_out_seconds=0.2) as (service, client),
            delivering(clone, nats=bus, hand_out_seconds=0.2) as (other, _),
        ):
            tenant = tenant_of(client)
            await subscribe(service.ground.database, tenant, receiver.url)
            for n in range(EVENTS):
                assert (await client.put(f"/v1/workflows/w{n}", json={})).status_code == 201
            await receiver.until(lambda: len({each.id for each in receiver.received}) == EVENTS)

            async def delivered() -> bool:
                found = await deliveries(service.ground.database, tenant)
                return [row["attempt_count"] for row in found if row["status"] == "delivered"] == [1] * EVENTS

            # What was taken away by the other was no attempt.
            await eventually(delivered, "every delivery")
            assert not await deliveries(other.ground.database, tenant)
    told = [entry for entry in logs if "CAIRN_NATS__STREAM_PREFIX" in entry["event"]]
    assert [entry["log_level"] for entry in told] == ["error"]
