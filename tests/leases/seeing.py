"""A tenant at two services, of which one sees Redis and the other does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from app.db.sql import Statement
from app.http.service import Service
from app.leases.liveness import Liveness
from tests.conftest import http, new_tenant
from tests.leases.calls import Leases
from tests.waiting import eventually

ROW = Statement(
    "SELECT fencing_token, expires_at, carried_until, expires_at <= clock_timestamp() AS lapsed,"
    " carried_until > clock_timestamp() AS carried FROM leases WHERE tenant_id = :tenant_id AND name = 'l'"
)


@dataclass
class Two:
    """One tenant at two services: one that sees Redis, and one that does not."""

    service: Service
    tenant_id: str
    seeing: Leases
    blind: Leases

    async def row(self) -> Any:
        """The lease as PostgreSQL knows it."""
        return await self.service.ground.database.row(ROW, tenant_id=self.tenant_id)

    async def carried(self, holder: str, token: int) -> None:
        """Renew until PostgreSQL has the lease for lapsed, and Redis alone holds it."""
        await self.seeing.renew(holder, token)

        async def lapsed_there() -> bool:
            await self.seeing.renew(holder, token)
            return (await self.row())["lapsed"]

        await eventually(lapsed_there, "a renewal that only Redis has")

    async def carried_there(self, holder: str, token: int) -> None:
        """Renew until Redis renews."""

        async def renewed() -> bool:
            lease = await Liveness(self.service.ground.cache).renew(self.tenant_id, "l", holder, token)
            if lease.lease is None:
                await self.seeing.renew(holder, token)
            return lease.lease is not None

        await eventually(renewed, "a lease that Redis carries")


@asynccontextmanager
async def both(services: dict[str, Service]) -> AsyncIterator[Two]:
    """A tenant that the two services share."""
    async with await new_tenant(services["redis"]) as client:
        headers = {"authorization": client.headers["authorization"]}
        async with http(services["away"], **headers) as blind:
            yield Two(services["redis"], client.headers["x-test-tenant"], Leases(client), Leases(blind))
