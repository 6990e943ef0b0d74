"""Webhooks as tests need them: made over HTTP, and deliveries in every state, put into the database."""

from __future__ import annotations

from typing import Any

import asyncpg
import httpx

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from app.webhooks.sealing import Seal
from tests.conftest import WEBHOOK_KEY

URL = "http://127.0.0.1:9/hook"


class Hooks:
    """Webhooks of a client's tenant."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service, self.client = service, client
        self.tenant_id: str = client.headers["x-test-tenant"]

    async def made(self, webhook_id: str = "wh", **fields: Any) -> dict[str, Any]:
        """A webhook, with its secret."""
        answer = await self.client.post("/v1/webhooks", json={"id": webhook_id, "url": URL, **fields})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def get(self, webhook_id: str = "wh") -> dict[str, Any]:
        """The webhook as it now is."""
        found: dict[str, Any] = (await self.client.get(f"/v1/webhooks/{webhook_id}")).json()
        return found

    async def execute(self, sql: str, *arguments: Any) -> Any:
        """Rows of a statement of the test's own; `$1` is the tenant."""
        connection = await asyncpg.connect(self.service.ground.database.url)
        try:
            return await connection.fetch(sql, self.tenant_id, *arguments)
        finally:
            await connection.close()

    async def delivery(self, webhook_id: str = "wh", status: str = "delivered", body: str | None = None) -> str:
        """The id of a delivery that stands so; a dead one has its letter."""
        made = await self.client.post(f"/v1/webhooks/{webhook_id}/test", json={"data": 1})
        assert made.status_code == 202, made.text
        name: str = made.json()["id"]
        ended, under_way = status in ("delivered", "dead"), status in ("queued", "sending")
        await self.execute(
            "UPDATE webhook_deliveries SET status = $3, attempt_count = 3, round_count = 3, dispatch = 3,"
            " ended_at = CASE WHEN $4 THEN now() END, lapses_at = CASE WHEN $5 THEN now() END,"
            " last_error = CASE WHEN $3 = 'dead' THEN 'It broke.' END WHERE tenant_id = $1 AND id = $2",
            name, status, ended, under_way,
        )  # fmt: skip
        if status == "dead":
            await self.execute(
                "INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, last_error)"
                " VALUES ($1, 'webhook', $2, 'attempts_exhausted', 3, 'It broke.')",
                name,
            )
        return name

    async def letter(self, delivery_id: str) -> str:
        """The id of the letter of a delivery."""
        (found,) = (await self.client.get("/v1/dead-letters", params={"subject": delivery_id})).json()["items"]
        return str(found["id"])

    async def sequenced(self) -> None:
        """Give every event its position."""
        await drain(sequencer(lambda _waited: None), self.service.ground.database)

    async def handed_out(self) -> None:
        """As if every event had become deliveries."""
        await self.execute(
            "UPDATE webhook_heads AS h SET position = e.position FROM event_heads AS e"
            " WHERE h.tenant_id = $1 AND e.tenant_id = h.tenant_id"
        )

    async def secrets(self, webhook_id: str = "wh") -> tuple[str | None, str | None]:
        """The secrets that sign, as they are stored, opened."""
        (row,) = await self.execute(
            "SELECT secret, previous_secret FROM webhooks WHERE tenant_id = $1 AND id = $2", webhook_id
        )
        seal = Seal(WEBHOOK_KEY)
        return seal.open(row[0]).decode(), None if row[1] is None else seal.open(row[1]).decode()
