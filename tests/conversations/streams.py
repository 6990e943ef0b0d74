"""A conversation to append to, and submissions for its agent and instance."""

from __future__ import annotations

from typing import Any

import asyncpg
import httpx

from app.http.service import Service
from tests.submissions.calls import Calls


class Queue(Calls):
    """Submissions for the agent `echo` and its instance `i1`."""

    async def runs(self, name: str = "sub", **fields: Any) -> dict[str, str]:
        """A submission that runs under the attempt `att`, in a session of its own."""
        await self.running(name, "att", **{"session": name, "agent": "echo", "instance_id": "i1", **fields})
        return {"submission_id": name, "attempt_id": "att"}


class Stream:
    """A conversation and the claim of the producer that appends to it."""

    def __init__(self, client: httpx.AsyncClient, path: str) -> None:
        self.client, self.path = client, path
        self.claim: dict[str, Any] = {}
        self.sequence = 0

    async def acquire(self, producer_id: str = "p1") -> dict[str, Any]:
        """Take it over."""
        answer = await self.client.post(
            "/v1/conversations/acquire", json={"path": self.path, "producer_id": producer_id}
        )
        assert answer.status_code == 200, answer.text
        self.claim, self.sequence = answer.json(), 0
        return self.claim

    def body(self, records: bytes, sequence: int | None = None, **more: Any) -> bytes:
        """The body of an append, with the records as they are."""
        members = {
            "path": self.path,
            "producer_id": self.claim["producer_id"],
            "producer_epoch": self.claim["producer_epoch"],
            "incarnation": self.claim["incarnation"],
            "producer_sequence": self.sequence if sequence is None else sequence,
            **more,
        }
        head = httpx.Request("POST", "http://x", json=members).content[:-1]
        return head + b',"records":' + records + b"}"

    async def append(
        self, records: bytes = b'[{"a":1}]', sequence: int | None = None, *, headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:  # fmt: skip
        """Append a batch; the next sequence is counted where it was taken."""
        answer = await self.client.post(
            "/v1/conversations/append",
            content=self.body(records, sequence, **more),
            headers={"content-type": "application/json", **(headers or {})},
        )
        if answer.status_code == 200 and sequence is None:
            self.sequence += 1
        return answer

    async def read(self, **query: Any) -> dict[str, Any]:
        """A page."""
        answer = await self.client.get("/v1/conversations/read", params={"path": self.path, **query})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def meta(self) -> dict[str, Any]:
        """What stands."""
        answer = await self.client.get("/v1/conversations/meta", params={"path": self.path})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


async def created(client: httpx.AsyncClient, path: str = "agents/echo/i1", **identity: str) -> Stream:
    """A conversation of the agent `echo` and its instance `i1` with a producer `p1`."""
    whose = {"agent_name": "echo", "instance_id": "i1", **identity}
    answer = await client.put("/v1/conversations", json={"path": path, "identity": whose})
    assert answer.status_code == 201, answer.text
    stream = Stream(client, path)
    await stream.acquire()
    return stream


async def connected(service: Service) -> asyncpg.Connection:
    """A connection beside the service."""
    return await asyncpg.connect(service.ground.database.url)


def offset(seq: int) -> str:
    """How an offset is written."""
    return f"0000000000000000_{seq:016}"
