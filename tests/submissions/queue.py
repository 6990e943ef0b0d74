"""What the tests of the queue share: claims, settlements, lapsed leases."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx

from app.background.runner import drain
from app.bus.hints import EmbeddedHints
from app.db.sql import Statement
from app.http.service import Service
from app.settings import QueueSettings
from app.submissions.jobs import expiry

PATH = "/v1/submissions"
NEXT = f"{PATH}/claim-next"


def tenant(client: httpx.AsyncClient) -> str:
    """The tenant of a client."""
    return str(client.headers["x-test-tenant"])


async def claim_next(client: httpx.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    """What claim-next gives."""
    answer = await client.post(NEXT, json={"owner_id": "w", "limit": 10, **fields})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def ids(client: httpx.AsyncClient, **fields: Any) -> list[str]:
    """The ids of what claim-next gives."""
    return [item["id"] for item in await claim_next(client, **fields)]


async def rows(service: Service, sql: str, **arguments: Any) -> list[Any]:
    """Rows of the database itself."""
    return await service.ground.database.rows(Statement(sql), **arguments)


async def settle(service: Service, client: httpx.AsyncClient, submission_id: str, status: str = "queued") -> None:
    """Settle a submission as failed."""
    await rows(
        service,
        "SELECT FROM cairn_settle(:tenant_id, :id, :status, NULL, NULL, 'failed', 'x')",
        tenant_id=tenant(client), id=submission_id, status=status,
    )  # fmt: skip


async def pass_time(service: Service, client: httpx.AsyncClient, *names: str) -> None:
    """Let instants of the tenant's submissions be in the past: columns such as `lease_lapses_at`.

    What somebody changes at the moment is passed over: who waited for it would hold what others lock in their order.
    """
    for name in names:
        await rows(
            service,
            "WITH free AS MATERIALIZED (SELECT id FROM submissions WHERE tenant_id = :tenant_id FOR UPDATE SKIP LOCKED)"
            f" UPDATE submissions AS s SET {name} = s.{name} - interval '1 day' FROM free"
            " WHERE s.tenant_id = :tenant_id AND s.id = free.id",
            tenant_id=tenant(client),
        )


async def expire(service: Service, **settings: float) -> int:
    """Run the expiry job until nothing is left; how many leases it found lapsed."""
    return await drain(expiry(QueueSettings(**settings), EmbeddedHints()), service.ground.database)


async def events(service: Service, client: httpx.AsyncClient, submission_id: str) -> Counter[str]:
    """The events of a submission, by type."""
    found = await rows(
        service,
        "SELECT type FROM (SELECT tenant_id, subject_id, type FROM outbox"
        " UNION ALL SELECT tenant_id, subject_id, type FROM events) AS written"
        " WHERE tenant_id = :tenant_id AND subject_id = :id",
        tenant_id=tenant(client), id=submission_id,
    )  # fmt: skip
    return Counter(row["type"] for row in found)
