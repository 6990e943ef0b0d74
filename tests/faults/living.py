"""A tenant that makes every kind of data request of an API process, again and again, and keeps how long each took."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.api_process import ApiProcess, of
from tests.conversations.streams import Stream, created
from tests.webhooks.receiving import Receiver

# Redis is asked before each request of a tenant with a limit; this one is never reached.
LIMITS = {"requests_per_second": 100_000, "burst": 100_000}
# What a request may take on top of the normal while Redis or NATS is away: one wait for Redis, 0.05 s, and what a busy
# machine adds.
BOUND_SECONDS = 0.25
ROUNDS = 15
# What was handed out and is lost, with a stream or a process, comes again soon, so that tests are short.
DELIVERING = {
    "background__enabled": True, "webhooks__schedule": ",".join(["0.5"] * 40), "webhooks__hand_out_seconds": 2,
    "webhooks__attempt_seconds": 2, "nats__stream_bytes_max": 16 * 1024 * 1024,
}  # fmt: skip

Took = dict[str, list[float]]


class Living:
    """A tenant with a rate limit. `made` are the workflows that were answered with 201."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.made: list[str] = []
        self._stream: Stream
        self._count = 0

    async def prepare(self) -> None:
        """Make what the requests are about."""
        self._stream = await created(self.client)

    async def subscribe(self, url: str) -> None:
        """Send each new workflow to an endpoint, tried again soon and for long."""
        body = {"id": "wh", "url": url, "event_types": ["workflow.created"]}
        assert (await self.client.post("/v1/webhooks", json=body)).status_code == 201

    async def rounds(self, count: int = ROUNDS) -> Took:
        """So many rounds of every kind of request, each of which must succeed; the seconds that each took."""
        took: Took = {}
        for _ in range(count):
            await self._round(took)
        return took

    async def _round(self, took: Took) -> None:
        self._count += 1
        name = f"w{self._count}"
        lease = f"/v1/leases/{name}"
        submission = {
            "id": name, "session_key": name, "kind": "direct", "agent": "a", "instance_id": "i", "input": {},
        }  # fmt: skip
        claim = {"owner_id": "o", "agent": "a", "limit": 1, "lease_seconds": 60}
        operations = [{"method": "POST", "path": "/v1/workflows", "body": {"id": f"{name}{at}"}} for at in "bc"]
        await self._ask(took, "a write", "POST", "/v1/workflows", {"id": name})
        self.made.append(name)
        await self._ask(took, "a read", "GET", f"/v1/workflows/{name}")
        await self._ask(took, "an admission", "POST", "/v1/submissions", submission)
        claimed = await self._ask(took, "a claim", "POST", "/v1/submissions/claim-next", claim)
        assert [each["id"] for each in claimed["items"]] == [name]
        started = time.monotonic()
        assert (await self._stream.append()).status_code == 200
        took.setdefault("an append", []).append(time.monotonic() - started)
        batch = await self._ask(took, "a batch", "POST", "/v1/batch", {"operations": operations})
        assert [each["status"] for each in batch["results"]] == [201, 201]
        self.made += [f"{name}b", f"{name}c"]
        held = await self._ask(took, "a lease", "POST", f"{lease}/acquire", {"holder": "h", "lease_seconds": 30})
        holder = {"holder": "h", "fencing_token": held["fencing_token"]}
        await self._ask(took, "a renewal", "POST", f"{lease}/renew", holder)
        await self._ask(took, "a renewal", "POST", f"{lease}/renew", holder)
        await self._ask(took, "a release", "POST", f"{lease}/release", holder)

    async def _ask(self, took: Took, what: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
        started = time.monotonic()
        answer = await self.client.request(method, path, json=body)
        took.setdefault(what, []).append(time.monotonic() - started)
        assert answer.status_code < 300, (what, answer.status_code, answer.text)
        read: dict[str, Any] = answer.json()
        return read


def require_near(normal: Took, found: Took) -> None:
    """Fail where any kind of request took longer than normally, and the bound on top."""
    for what, seconds in found.items():
        most = statistics.median(normal[what]) + BOUND_SECONDS
        # One that came while another process had the processor says nothing about the kind.
        late = sorted(seconds)[-2:] if len(seconds) > 2 else seconds
        assert late[0] < most, f"{what} took {late} s; normal is {statistics.median(normal[what]):.3f} s"


class Seen:
    """What an API process says of itself."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def ready(self) -> dict[str, Any]:
        """What `/readyz` says, which is 200 and within its two seconds, or what a busy machine makes of them."""
        started = time.monotonic()
        answer = await self.client.get("/readyz")
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - started < 4
        shown: dict[str, Any] = answer.json()
        return shown

    async def without(self, *parts: str) -> bool:
        """Whether exactly these are away, as `/readyz` and `/v1/capabilities` say alike."""
        ready, capable = await asyncio.gather(self.ready(), self.client.get("/v1/capabilities"))
        away = {name for name, one in ready["components"].items() if one["mode"] == "degraded"}
        assert ready["status"] == ("degraded" if away else "ready")
        for name in away:
            assert ready["components"][name]["status"] == "down"
            assert ready["components"][name]["detail"]
        told = {name for name, one in capable.json()["parts"].items() if one["mode"] == "degraded"}
        return away == told == set(parts)


@asynccontextmanager
async def living(process: ApiProcess, url: str | None = None) -> AsyncIterator[tuple[Living, Seen]]:
    """A tenant of the process whose new workflows go to the URL, and what the process says of itself."""
    async with of(process) as operator:
        assert (await operator.put("/v1/tenants/acme", json={})).status_code == 201
        assert (await operator.put("/v1/tenants/acme/limits", json=LIMITS)).status_code == 200
        key = await operator.post(
            "/v1/api-keys", json={"name": "k", "scopes": ["*:read", "*:write"]}, headers={"x-tenant-id": "acme"}
        )
        headers = {"authorization": f"Bearer {key.json()['key']}"}
        async with httpx.AsyncClient(base_url=process.url, headers=headers, timeout=60) as client:
            tenant = Living(client)
            await tenant.prepare()
            if url is not None:
                await tenant.subscribe(url)
            operator.headers["x-tenant-id"] = "acme"
            yield tenant, Seen(operator)


async def everything_arrives(tenant: Living, receiver: Receiver) -> None:
    """Each workflow that was ever answered with 201 has been told of; what came twice came under one id."""
    await receiver.until(lambda: {each.says["data"]["id"] for each in receiver.received} >= set(tenant.made))
    told_as: dict[str, set[str]] = {}
    for each in receiver.received:
        told_as.setdefault(each.says["data"]["id"], set()).add(each.id)
    assert {name: ids for name, ids in told_as.items() if len(ids) > 1} == {}
