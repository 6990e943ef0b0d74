"""B29: events around and far above the largest message of NATS are delivered, and told where they are given up."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable

from app.bus.work import MESSAGE_BYTES_MAX
from app.db.sql import Statement
from app.embedded import Servers
from tests.bus.working import asking, forget, named, told
from tests.waiting import eventually
from tests.webhooks.pipeline import delivering, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]
# What an event has beside its output varies by less than this.
SIZES = (MESSAGE_BYTES_MAX * 9 // 10, MESSAGE_BYTES_MAX - 2000, MESSAGE_BYTES_MAX, 5 * MESSAGE_BYTES_MAX)


async def test_b29_large_events_are_delivered_and_their_dead_letters_refer_to_what_does_not_fit(
    clone: Clone, servers: Servers
) -> None:
    streams = named(f"t{uuid.uuid4().hex[:12]}", stream_bytes_max=64 * 1024 * 1024)
    bus = {
        "url": servers.nats_url, "stream_prefix": streams.stream_prefix, "subject_prefix": streams.stream_prefix,
        "stream_bytes_max": streams.stream_bytes_max,
    }  # fmt: skip

    async def answer(received: Received) -> int:
        return 204 if received.path == "/well" else 500

    async with (
        receiving() as receiver,
        delivering(clone, nats=bus, schedule="0.01") as (service, client),
        asking(servers.nats_url) as outside,
    ):
        receiver.answer = answer
        database, tenant = service.ground.database, tenant_of(client)
        for name in ("well", "ill"):
            await subscribe(
                database,
                tenant,
                f"{receiver.url}/{name}",
                id=name,
                event_types=["invocation.ended"],
                include=["output"],
            )
        workflow = (await client.post("/v1/workflows", json={})).json()
        version = await client.post(
            f"/v1/workflows/{workflow['id']}/versions", json={"dsl": {}, "operation": "init", "nodes": []}
        )
        outputs = {f"of {size}": "x" * size for size in SIZES}
        for name, output in outputs.items():
            made = await client.post("/v1/invocations", json={"id": name, "version_id": version.json()["id"]})
            assert made.status_code == 201, made.text
            ended = await client.post(f"/v1/invocations/{name}/end", json={"status": "completed", "output": output})
            assert ended.status_code == 200, ended.text
        await receiver.until(lambda: len(receiver.of("/well")) == len(SIZES))
        delivered = {received.says["data"]["id"]: received.says["data"]["output"] for received in receiver.of("/well")}
        assert delivered == outputs

        async def announced() -> bool:
            state = (await told(outside, f"STREAM.INFO.{streams.stream_prefix}_webhook_dead_letter"))["state"]
            return int(state["messages"]) == len(SIZES)

        await eventually(announced, "every dead letter")
        letters = {}
        for number in range(1, len(SIZES) + 1):
            stored = await outside.jetstream().get_msg(f"{streams.stream_prefix}_webhook_dead_letter", number)
            assert len(stored.data) <= MESSAGE_BYTES_MAX
            letter = json.loads(stored.data)
            assert letter["tenant_id"] == tenant
            letters[letter["subject"]] = letter["event"]
        sent = {received.id: received.says for received in receiver.of("/ill")}
        assert letters.keys() == sent.keys()
        for delivery_id, event in letters.items():
            if len(sent[delivery_id]["data"]["output"]) < MESSAGE_BYTES_MAX:
                assert event == sent[delivery_id]
            else:
                assert event == {"href": f"/v1/deliveries/{delivery_id}"}
        # Nothing goes on trying.
        rows = await database.rows(Statement("SELECT status FROM webhook_deliveries WHERE ended_at IS NULL"))
        assert not rows
    await forget(servers.nats_url, streams)
