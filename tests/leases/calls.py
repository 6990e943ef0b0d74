"""Calls about leases, as their holders make them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.payloads import problem
from tests.waiting import eventually


def beside(redis_url: str | None) -> dict[str, Any]:
    """The settings of Redis; a machine that is busy with other tests is not taken for a Redis that hangs."""
    return {} if redis_url is None else {"url": redis_url, "wait_seconds": 5}


class Leases:
    """The leases of a client's tenant."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def ask(self, change: str, name: str = "l", **body: Any) -> httpx.Response:
        """Make a call about a lease."""
        return await self.client.post(f"/v1/leases/{quote(name, safe='')}/{change}", json=body)

    async def done(self, change: str, name: str = "l", **body: Any) -> dict[str, Any]:
        """The same, which must succeed."""
        answer = await self.ask(change, name, **body)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def acquire(self, holder: str, lease_seconds: int = 30, name: str = "l") -> int:
        """Take the lease; its token."""
        return int((await self.done("acquire", name, holder=holder, lease_seconds=lease_seconds))["fencing_token"])

    async def renew(self, holder: str, token: int, name: str = "l") -> dict[str, Any]:
        """Renew the lease."""
        return await self.done("renew", name, holder=holder, fencing_token=token)

    async def release(self, holder: str, token: int, name: str = "l") -> dict[str, Any]:
        """Release the lease."""
        return await self.done("release", name, holder=holder, fencing_token=token)

    async def acquired(self, holder: str, lease_seconds: int = 30, name: str = "l") -> int:
        """Try to take the lease until that succeeds; its token."""

        async def token() -> int | None:
            answer = await self.ask("acquire", name, holder=holder, lease_seconds=lease_seconds)
            if answer.status_code == 200:
                return int(answer.json()["fencing_token"])
            assert problem(answer) == (409, "lease_held")
            return None

        return int(await eventually(token, f"{holder}'s turn"))
