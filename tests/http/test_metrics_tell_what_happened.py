"""What `/metrics` says is what happened: caused here, then read there, also over several processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from app.http.service import Service
from benchmarks.faults.parts import nats_part, valkey_part
from benchmarks.process import children
from tests.api_process import Command, of, serving
from tests.conftest import Make, http, new_tenant
from tests.waiting import eventually, until
from tests.webhooks.receiving import Received, receiving

EVENTS = 20
MIB = 1024 * 1024


async def figures(client: httpx.AsyncClient) -> dict[str, float]:
    """Every sample, by its name and its labels as they are written."""
    text = (await client.get("/metrics")).text
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def test_what_waits_is_measured_though_nobody_works_on_it(fresh: Service) -> None:
    async with await new_tenant(fresh) as client, http(fresh) as stranger:
        assert (await client.post("/v1/webhooks", json={"id": "wh", "url": "http://127.0.0.1:9/"})).status_code == 201
        for _ in range(2):
            assert (await client.post("/v1/webhooks/wh/test", json={"data": 1})).status_code == 202
        for _ in range(3):
            await Make(client).workflow()
        found = await figures(stranger)
    # The webhook's own event too.
    assert found["cairn_outbox_depth"] == 4
    assert 0 < found["cairn_outbox_oldest_seconds"] < 60
    assert found["cairn_webhook_pending"] == 2
    assert 0 < found["cairn_webhook_oldest_due_seconds"] < 60


async def test_a_cache_tells_of_hits_and_of_misses(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        version = await Make(client).version()
        before = await figures(client)
        for _ in range(3):
            assert (await client.get(f"/v1/versions/{version['id']}")).status_code == 200
        after = await figures(client)
    for kind, outcome, count in (("version", "miss", 1), ("version", "hit", 2)):
        name = f'cairn_cache_reads_total{{kind="{kind}",outcome="{outcome}"}}'
        assert after[name] - before.get(name, 0) == count
    assert after['cairn_cache_reads_total{kind="keys",outcome="hit"}'] > 0


async def test_two_processes_tell_of_deliveries_streams_and_absences_as_one(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    nats, valkey = nats_part(tmp_path), valkey_part(tmp_path)

    async def answer(received: Received) -> int:
        return 204 if received.path == "/well" else 500

    try:
        await asyncio.gather(asyncio.to_thread(nats.start), asyncio.to_thread(valkey.start))
        async with receiving() as receiver:
            receiver.answer = answer
            with serving(
                await clone(), http__workers=2, background__enabled=True, webhooks__schedule="0.05",
                nats__url=nats.url, redis__url=valkey.url, nats__stream_bytes_max=16 * MIB,
            ) as process:  # fmt: skip
                async with of(process) as client:
                    assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
                    client.headers["x-tenant-id"] = "acme"
                    for name in ("well", "ill"):
                        body = {"id": name, "url": f"{receiver.url}/{name}", "event_types": ["workflow.created"]}
                        assert (await client.post("/v1/webhooks", json=body)).status_code == 201
                    for _ in range(EVENTS):
                        await Make(client).workflow()

                    async def ended() -> dict[str, float] | None:
                        found = await figures(client)
                        announced = found["cairn_stream_messages" + '{stream="webhook.dead_letter"}']
                        return found if announced == EVENTS and not found["cairn_webhook_pending"] else None

                    found = await eventually(ended, "the end of all deliveries")
                    attempts = "cairn_webhook_attempt_seconds_count{outcome=%s}"
                    assert found[attempts % '"delivered"'] == EVENTS == len(receiver.of("/well"))
                    # Each is tried again once, and then given up.
                    assert found[attempts % '"failed"'] == found[attempts % '"dead"'] == EVENTS
                    assert found['cairn_webhook_attempt_seconds_sum{outcome="delivered"}'] > 0
                    assert found["cairn_webhook_given_up_total"] == EVENTS
                    assert found["cairn_dead_letters_announced_total"] == EVENTS
                    assert found["cairn_events_sequenced_total"] == EVENTS + 2
                    assert found["cairn_event_sequencing_seconds_count"] == EVENTS + 2
                    assert found["cairn_outbox_depth"] == found["cairn_outbox_oldest_seconds"] == 0
                    assert found["cairn_webhook_oldest_due_seconds"] == 0
                    for name in ("messages", "pending", "ack_pending", "oldest_seconds"):
                        assert f'cairn_stream_{name}{{stream="webhook.queued"}}' in found
                    await absences_add_up(client, process.process.pid, valkey.kill)
    finally:
        nats.kill()
        valkey.kill()


async def absences_add_up(client: httpx.AsyncClient, parent: int, kill: Callable[[], None]) -> None:
    """Both processes tell that Redis is away, for how long, and one that is killed tells nothing any more."""
    away, seconds = 'cairn_degraded{part="redis"}', 'cairn_degraded_seconds_total{part="redis"}'

    async def both() -> float | None:
        found = await figures(client)
        return found[seconds] if found[away] == 2 else None

    async def more() -> bool:
        return (await figures(client))[seconds] > began + 1

    assert (await figures(client))[away] == 0
    kill()
    began = await eventually(both, "that both are without Redis")
    await eventually(more, "more such seconds")
    before = {pid for pid in children(parent) if _serves(pid)}
    assert len(before) == 2
    os.kill(before.pop(), signal.SIGKILL)

    async def replaced() -> bool:
        try:
            return len([pid for pid in children(parent) if _serves(pid)]) == 2 and await both() is not None
        except httpx.TransportError:
            return False  # It had taken the connection before it was killed.

    await eventually(replaced, "another process in its place")
    assert (await figures(client))['cairn_degraded{part="streams"}'] == 0


def _serves(pid: int) -> bool:
    """Whether it is one of the API processes, and not what looks after their shared memory."""
    return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_a_worker_tells_what_it_does_on_a_port_of_its_own(clone: Callable[[], Awaitable[str]]) -> None:
    database = await clone()
    worker = Command("worker", url=database, background__metrics_port=0)
    try:
        told = await asyncio.to_thread(until, lambda: re.search(r'"port": (\d+)', worker.output()), "its port")
        with serving(database, background__enabled=False) as process:
            async with of(process) as client, httpx.AsyncClient(base_url=f"http://127.0.0.1:{told[1]}") as stranger:
                assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
                client.headers["x-tenant-id"] = "acme"
                await Make(client).workflow()

                async def sequenced() -> bool:
                    return (await figures(stranger))["cairn_events_sequenced_total"] == 1

                await eventually(sequenced, "the event")
                assert (await figures(client))["cairn_events_sequenced_total"] == 0
                runs = 'cairn_background_runs_total{job="sequence events",outcome="done"}'
                assert (await figures(stranger))[runs] >= 1
                assert (await stranger.get("/v1/workflows")).status_code == 404
                taken = Command("worker", url=database, background__metrics_port=int(told[1]))
                try:
                    assert await asyncio.to_thread(taken.wait) == 1
                    assert "correct CAIRN_BACKGROUND__METRICS_PORT." in taken.output()
                    assert "Traceback" not in taken.output()
                finally:
                    taken.close()
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 10) == 0
    finally:
        worker.close()
