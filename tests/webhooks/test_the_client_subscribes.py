"""The Python client, against a real service: webhooks, deliveries and dead letters, one call each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.client import AsyncCairn, ConflictError
from tests.api_process import serving
from tests.conftest import ADMIN_KEY
from tests.contract.script import end_deliveries
from tests.webhooks.hooks import URL


async def test_every_call_about_webhooks_is_made_from_python(clone: Callable[[], Awaitable[str]]) -> None:
    database_url = await clone()
    with serving(database_url) as api:
        async with AsyncCairn(api.url, key=ADMIN_KEY) as operator:
            await operator.tenants.ensure("acme")
        async with AsyncCairn(api.url, key=ADMIN_KEY, tenant="acme") as cairn:
            hook = await cairn.webhooks.create(URL, id="wh", event_types=["invocation.ended"], headers={"X-Key": "k"})
            assert (hook.secret or "").startswith("whsec_")
            assert (hook.event_types, hook.headers) == (["invocation.ended"], {"X-Key": None})
            changed = await cairn.webhooks.patch("wh", description="new", include=["output"])
            assert (changed.description, changed.include, changed.secret) == ("new", ["output"], None)
            rotated = await cairn.webhooks.rotate_secret("wh", overlap_seconds=60)
            assert rotated.secret not in (None, hook.secret)
            assert rotated.previous_secret_until is not None
            sent = await cairn.webhooks.test("wh", data={"n": 1})
            assert (sent.status, sent.attempts) == ("pending", [])
            with pytest.raises(ConflictError) as caught:
                await cairn.deliveries.redeliver(sent.id)
            assert caught.value.code == "delivery_under_way"
            await end_deliveries(database_url, "acme")
            shown = await cairn.deliveries.get(sent.id, include=["body"])
            assert shown.body is not None
            assert (shown.status, shown.body.value()["data"]) == ("delivered", {"n": 1})
            assert (await cairn.deliveries.redeliver(sent.id)).status == "pending"
            for found in (cairn.webhooks.deliveries("wh"), cairn.deliveries.list(webhook_id="wh", status=["pending"])):
                assert [delivery.id async for delivery in found] == [sent.id]
            assert [one.id async for one in cairn.webhooks.list(enabled=True)] == ["wh"]
            off = await cairn.webhooks.patch("wh", enabled=False)
            assert (off.disabled_reason, (await cairn.webhooks.get("wh")).missed_after) == (
                "by_client",
                off.missed_after,
            )
            assert (await cairn.webhooks.enable("wh")).missed_after == off.missed_after
            await cairn.webhooks.delete("wh")


async def test_every_call_about_dead_letters_is_made_from_python(clone: Callable[[], Awaitable[str]]) -> None:
    with serving(await clone()) as api:
        async with AsyncCairn(api.url, key=ADMIN_KEY) as operator:
            await operator.tenants.ensure("acme")
        async with AsyncCairn(api.url, key=ADMIN_KEY, tenant="acme") as cairn:

            async def given_up(name: str) -> str:
                await cairn.submissions.admit(
                    id=name, session_key=name, kind="direct", agent="a", instance_id="i", input=1, max_attempts=1
                )
                await cairn.submissions.claim(name, "t", "o", lease_seconds=30)
                await cairn.submissions.requeue(name, "t")
                (letter,) = [one async for one in cairn.dead_letters.list(subject=name)]
                return letter.id

            a, b, c, _ = await asyncio.gather(*(given_up(name) for name in "abcd"))
            replayed = await cairn.dead_letters.replay(a)
            assert (replayed.source, replayed.subject) == ("submission", "a")
            assert (await cairn.submissions.get(replayed.replayed_as)).status == "queued"
            page = await cairn.dead_letters.replay_all(subject="b", limit=1)
            assert (page.replayed, page.refused, page.refusals, page.next_cursor) == (1, 0, [], None)
            assert [item["id"] for item in page["items"]] == [b]
            await cairn.dead_letters.delete(c)
            purged = await cairn.dead_letters.purge(all=True)
            assert (purged.deleted, purged.more) == (1, False)
