"""Calls that cross each other and the way of events: nothing falls between, nothing happens twice."""

from __future__ import annotations

import asyncio
from asyncio import gather
from itertools import pairwise

import httpx

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from app.webhooks.fanout import fan_out
from tests.conftest import Make
from tests.payloads import codes
from tests.webhooks.hooks import URL, Hooks


async def test_every_event_after_the_creation_and_none_before_it_becomes_a_delivery(
    service: Service, hooks: Hooks, client: httpx.AsyncClient, make: Make
) -> None:
    done = asyncio.Event()

    async def write() -> None:
        for number in range(60):
            await make.workflow(id=f"w{number}")
        done.set()

    async def move() -> None:
        while not done.is_set():
            await drain(sequencer(lambda _waited: None), service.ground.database)
            await hand_out(service)

    async def subscribe() -> None:
        for number in range(8):
            await hooks.made(f"h{number}", event_types=["workflow.*"])

    await gather(write(), move(), subscribe())
    await drain(sequencer(lambda _waited: None), service.ground.database)
    while await hand_out(service):
        pass
    for row in await hooks.execute(
        "SELECT w.id, ARRAY(SELECT event_position FROM webhook_deliveries AS d WHERE d.tenant_id = $1"
        " AND d.webhook_id = w.id ORDER BY 1) AS got, ARRAY(SELECT position FROM events AS e WHERE e.tenant_id = $1"
        " AND e.position > w.after_position AND e.type = 'workflow.created' ORDER BY 1) AS wanted"
        " FROM webhooks AS w WHERE w.tenant_id = $1"
    ):
        assert row["got"] == row["wanted"], row["id"]


async def hand_out(service: Service) -> int:
    """Let events become deliveries, once."""
    return await fan_out(lambda: None)(service.ground.database, 100)


async def test_a_webhook_is_made_once_by_many_at_once(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post("/v1/webhooks", json={"id": "wh", "url": URL}) for _ in range(10)))
    assert codes(answers) == [200] * 9 + [201]
    secrets = [answer.json()["secret"] for answer in answers]
    assert sum(secret is not None for secret in secrets) == 1


async def test_disabling_and_enabling_that_cross_leave_it_in_one_of_the_two(
    hooks: Hooks, client: httpx.AsyncClient
) -> None:
    await hooks.made()
    for _ in range(5):
        answers = await gather(
            *(client.patch("/v1/webhooks/wh", json={"enabled": False}) for _ in range(3)),
            *(client.post("/v1/webhooks/wh/enable") for _ in range(3)),
            *(client.patch("/v1/webhooks/wh", json={"enabled": True}) for _ in range(2)),
        )
        assert set(codes(answers)) == {200}, [answer.text for answer in answers]
        now = await hooks.get()
        assert now["enabled"] == (now["disabled_at"] is None) == (now["disabled_reason"] is None)
    await hooks.sequenced()
    events = (await client.get("/v1/events?limit=1000")).json()["items"]
    turns = [event["type"] for event in events if event["type"] in ("webhook.enabled", "webhook.disabled")]
    assert all(turn != after for turn, after in pairwise(turns)), "each of them in its turn"


async def test_of_rotations_at_once_the_last_two_secrets_sign(hooks: Hooks, client: httpx.AsyncClient) -> None:
    first = (await hooks.made())["secret"]
    answers = await gather(*(client.post("/v1/webhooks/wh/rotate-secret") for _ in range(5)))
    shown = [answer.json()["secret"] for answer in answers]
    by_revision = {int(answer.headers["etag"].strip('"')): answer.json()["secret"] for answer in answers}
    assert await hooks.secrets() == tuple(by_revision[turn] for turn in sorted(by_revision, reverse=True)[:2])
    assert first not in shown


async def test_a_webhook_that_is_made_meanwhile_is_no_other_revision(hooks: Hooks) -> None:
    client, url = hooks.client, "/v1/webhooks/crossing"
    for _ in range(60):
        answers = await gather(
            client.patch(url, json={"description": "d"}),
            client.post(f"{url}/rotate-secret", json={}),
            client.post("/v1/webhooks", json={"id": "crossing", "url": URL}),
            client.patch(url, json={"enabled": False}),
            client.post(f"{url}/rotate-secret", json={}),
            client.delete(url),
        )
        # Nobody named a revision.
        assert {answer.status_code for answer in answers} <= {200, 201, 204, 404}
        await client.delete(url)
