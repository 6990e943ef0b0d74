"""A key that sealed secrets is lost: what cannot be sent says so, and rotation brings the webhook back at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from standardwebhooks import Webhook
from typer.testing import CliRunner

from app.commands.root import app
from app.webhooks.sealing import new_key
from tests.conftest import http, running, settings_for
from tests.waiting import eventually
from tests.webhooks.pipeline import ALLOWED, delivering
from tests.webhooks.receiving import receiving

FAILED = "None of the keys in CAIRN_WEBHOOKS__ENCRYPTION_KEYS opens"


async def test_what_another_key_sealed_is_replaced(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    async with receiving() as receiver:
        async with delivering(clone, url) as (_service, client):
            given = {"id": "wh", "url": receiver.url, "headers": {"X-Key": "v"}, "event_types": ["session.*"]}
            assert (await client.post("/v1/webhooks", json=given)).status_code == 201
            headers = dict(client.headers)
        webhooks = ALLOWED | {"encryption_keys": new_key(), "schedule": "0.05,0.05,0.05"}
        settings = settings_for(url, background={"enabled": True}, webhooks=webhooks)
        async with running(settings) as service, http(service, **headers) as client:

            async def attempts(delivery_id: str) -> list[dict[str, Any]]:
                found = (await client.get(f"/v1/deliveries/{delivery_id}")).json()
                shown: list[dict[str, Any]] = found["attempts"] if found["status"] == "dead" else []
                return shown

            async def failure() -> str:
                test = (await client.post("/v1/webhooks/wh/test")).json()
                found = await eventually(lambda: attempts(test["id"]), "the failed delivery")
                return str(found[0]["error"])

            assert (await client.get("/v1/webhooks/wh")).status_code == 200
            asked = {"CAIRN_DATABASE__URL": url, "CAIRN_WEBHOOKS__ENCRYPTION_KEYS": webhooks["encryption_keys"]}
            looked = await asyncio.to_thread(CliRunner().invoke, app, ["doctor"], env=asked)
            assert re.search(
                r"sealing +wrong +No key in CAIRN_WEBHOOKS__ENCRYPTION_KEYS opens what 1 of 1", looked.output
            )
            assert (await failure()).startswith(f"{FAILED} the secret of the webhook")
            # The overlap is a day: what no key opens cannot sign meanwhile, and does not hold up what can.
            rotated = await client.post("/v1/webhooks/wh/rotate-secret", json={})
            assert rotated.status_code == 200, rotated.text
            assert (await failure()).startswith(f"{FAILED} the headers of the webhook")
            assert not receiver.received
            assert (await client.patch("/v1/webhooks/wh", json={"headers": {"X-Key": "new"}})).status_code == 200
            assert (await client.post("/v1/webhooks/wh/test")).status_code == 202
            await receiver.until(lambda: len(receiver.received) == 1)
            (received,) = receiver.received
            assert received.headers["x-key"] == "new"
            assert Webhook(rotated.json()["secret"]).verify(received.body, received.headers)
