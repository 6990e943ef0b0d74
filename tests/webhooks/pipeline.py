"""A service that delivers, with webhooks of a tenant, for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.db.database import Database
from app.db.sql import Statement
from app.http.service import Service
from app.webhooks.sealing import Seal
from app.webhooks.signing import new_secret
from tests.conftest import WEBHOOK_KEY, new_tenant, running, settings_for
from tests.waiting import eventually

ALLOWED = {"encryption_keys": WEBHOOK_KEY, "allow_private": "127.0.0.0/8"}


@asynccontextmanager
async def delivering(
    clone: Callable[[], Awaitable[str]], url: str | None = None, nats: dict[str, Any] | None = None, **webhooks: Any
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service that delivers to loopback, and a client of a tenant of it."""
    settings = settings_for(
        url or await clone(), background={"enabled": True}, webhooks=ALLOWED | webhooks, nats=nats or {}
    )
    async with running(settings) as service, await new_tenant(service) as client:
        yield service, client


async def subscribe(database: Database, tenant_id: str, url: str, **given: Any) -> str:
    """A webhook for what comes from now on; the answer is its secret."""
    secret = new_secret()
    await database.rows(
        Statement(
            "WITH head AS (SELECT position FROM event_heads WHERE tenant_id = :tenant_id FOR UPDATE), made AS ("
            "INSERT INTO webhooks (tenant_id, id, url, event_types, include, secret, after_position, digest)"
            " SELECT :tenant_id, :id, :url, CAST(:event_types AS text[]), CAST(:include AS text[]), :secret,"
            " COALESCE((SELECT position FROM head), 0), '' RETURNING after_position)"
            " INSERT INTO webhook_heads (tenant_id, position) SELECT :tenant_id, after_position FROM made"
            " ON CONFLICT DO NOTHING"
        ),
        tenant_id=tenant_id, id=given.get("id", "wh"), url=url, event_types=given.get("event_types", []),
        include=given.get("include", []), secret=Seal(WEBHOOK_KEY).seal(secret.encode()),
    )  # fmt: skip
    return secret


async def sequenced(database: Database) -> None:
    """Until every committed event has its position."""

    async def all_placed() -> bool:
        return not await database.rows(Statement("SELECT FROM outbox LIMIT 1"))

    await eventually(all_placed, "the positions of all events")


async def deliveries(database: Database, tenant_id: str, webhook_id: str = "wh") -> list[Any]:
    """The deliveries of a webhook, in the order in which they were made."""
    return await database.rows(
        Statement("SELECT * FROM webhook_deliveries WHERE tenant_id = :t AND webhook_id = :w ORDER BY created_at, id"),
        t=tenant_id,
        w=webhook_id,
    )


def tenant_of(client: httpx.AsyncClient) -> str:
    """Whose client it is."""
    return client.headers["x-test-tenant"]
