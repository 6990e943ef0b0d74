"""B32 over HTTP: what leads inward is refused at save and at send, and no answer of an inner service is ever shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from tests.conftest import Make
from tests.waiting import eventually
from tests.webhooks.pipeline import deliveries, delivering, subscribe, tenant_of
from tests.webhooks.raw_endpoint import answering
from tests.webhooks.test_b32_only_permitted_addresses_are_named import ABSURD, SPELLINGS

PUBLIC = "https://93.184.215.14/hook"
INNER = b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nan inner secret 42"
# What JSON itself cannot hold is refused before.
URLS = [
    *(f"http://{host}/" for host in SPELLINGS),
    *(url for url in ABSURD if "\ud800" not in url and "\x00" not in url),
]


def refused(answer: httpx.Response) -> bool:
    return answer.status_code == 422 and [error["pointer"] for error in answer.json()["errors"]] == ["/url"]


async def test_no_url_that_leads_inward_is_saved(clone: Callable[[], Awaitable[str]]) -> None:
    async with delivering(clone, allow_private="") as (_service, client):
        made = await client.post("/v1/webhooks", json={"id": "wh", "url": PUBLIC})
        assert made.status_code == 201, made.text
        for url in [*URLS, "http://localhost/", "http://postgres:5432/", "http://redis/", "http://nats:8222/varz"]:
            created = await client.post("/v1/webhooks", json={"url": url})
            changed = await client.patch("/v1/webhooks/wh", json={"url": url})
            assert (url, refused(created), refused(changed)) == (url, True, True)
        assert (await client.get("/v1/webhooks/wh")).json()["url"] == PUBLIC


async def test_what_leads_inward_when_it_is_sent_is_a_failure_that_tells_nothing(
    clone: Callable[[], Awaitable[str]],
) -> None:
    async with answering(INNER) as inner, delivering(clone, allow_private="", schedule="0.05") as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        # As if it had been saved before the name turned inward.
        await subscribe(database, tenant, inner.url("localhost"), event_types=["invocation.*"])
        await Make(client).invocation()

        async def dead() -> list[str]:
            rows = await deliveries(database, tenant)
            return [row["id"] for row in rows if row["status"] == "dead"]

        for delivery_id in await eventually(dead, "a dead delivery"):
            shown = await client.get(f"/v1/deliveries/{delivery_id}")
            errors = {attempt["error"] for attempt in shown.json()["attempts"]}
            assert errors == {"Not sent: the URL has a host with an address that is not public."}
            assert {attempt["response"] for attempt in shown.json()["attempts"]} == {None}
            for text in (shown.text, (await client.get("/v1/dead-letters")).text):
                assert "secret 42" not in text
                assert "127.0.0.1" not in text.replace(inner.url("localhost"), "")
        assert inner.connections == 0
