"""Rows of a tenant, some of them old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import Make

Run = Callable[..., Awaitable[dict[str, Any]]]


async def sql(service: Service, client: httpx.AsyncClient, text: str, **arguments: Any) -> list[Any]:
    """Rows of a statement about the client's tenant."""
    return await service.ground.database.rows(Statement(text), tenant=client.headers["x-test-tenant"], **arguments)


async def told(service: Service, client: httpx.AsyncClient, event_type: str) -> list[str]:
    """What events of this type are about, sorted."""
    text = "SELECT subject_id FROM outbox WHERE tenant_id = :tenant AND type = :type ORDER BY 1"
    return [row["subject_id"] for row in await sql(service, client, text, type=event_type)]


async def age(service: Service, client: httpx.AsyncClient, table: str, column: str, days: int = 40) -> None:
    """Move an instant of every row of the tenant back, each by a second more than the one after it."""
    await sql(
        service, client,
        f"UPDATE {table} SET {column} = {column} - make_interval(days => :days) WHERE tenant_id = :tenant"
        f" AND {column} IS NOT NULL", days=days,
    )  # fmt: skip


async def ended(make: Make, version_id: str, name: str, status: str = "completed", **fields: Any) -> None:
    """An invocation that has ended, with a message."""
    await make.invocation(id=name, version_id=version_id, **{k: v for k, v in fields.items() if k != "fitness_score"})
    await make.created(f"/v1/invocations/{name}/messages", id="m", role="user", payload=name)
    score = {"fitness_score": fields["fitness_score"]} if "fitness_score" in fields else {}
    answer = await make.client.post(f"/v1/invocations/{name}/end", json={"status": status, **score})
    assert answer.status_code == 200, answer.text


async def left(client: httpx.AsyncClient, path: str = "/v1/invocations", member: str = "id") -> list[str]:
    """The ids of a list, sorted."""
    return sorted(item[member] for item in (await client.get(path)).json()["items"])
