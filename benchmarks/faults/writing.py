"""Writes the events of the fault run: workflows in batches, each batch again until an API process says it is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from benchmarks.faults.stage import ApiPart

BATCH = 100
WRITERS = 4
PAUSE_SECONDS = 0.1
REQUEST_SECONDS = 20


@dataclass
class Writing:
    """What is to be written, and how it goes. `faults` counts what the steady process answered with a 5xx."""

    steady: ApiPart
    shaky: ApiPart
    keys: dict[str, str]
    events: int
    written: int = 0
    repeated: int = 0
    faults: list[str] = field(default_factory=list)

    def ids(self, tenant_id: str) -> list[str]:
        """The ids of a tenant's workflows."""
        tenants = sorted(self.keys)
        return [f"wf_{number}" for number in range(self.events) if tenants[number % len(tenants)] == tenant_id]

    async def run(self) -> None:
        """Write everything."""
        batches = [
            (tenant_id, ids[start : start + BATCH])
            for tenant_id, ids in ((tenant_id, self.ids(tenant_id)) for tenant_id in sorted(self.keys))
            for start in range(0, len(ids), BATCH)
        ]
        # The tenants in turn, so that all of them have something under way at all times.
        batches.sort(key=lambda batch: int(batch[1][0].removeprefix("wf_")))
        async with httpx.AsyncClient(timeout=REQUEST_SECONDS) as client, asyncio.TaskGroup() as group:
            for place in range(WRITERS):
                group.create_task(self._write(client, place, batches[place::WRITERS]))

    async def _write(self, client: httpx.AsyncClient, place: int, batches: Sequence[tuple[str, Sequence[str]]]) -> None:
        for tenant_id, ids in batches:
            operations = [{"method": "POST", "path": "/v1/workflows", "body": {"id": name}} for name in ids]
            body = json.dumps({"operations": operations}).encode()
            headers = {
                "Authorization": f"Bearer {self.keys[tenant_id]}",
                "Content-Type": "application/json",
                "Idempotency-Key": f"{tenant_id}-{ids[0]}",
            }
            turn = place
            while not await self._sent(client, self.shaky if turn % 2 else self.steady, body, headers):
                self.repeated += 1
                turn += 1
                await asyncio.sleep(PAUSE_SECONDS)
            self.written += len(ids)

    async def _sent(self, client: httpx.AsyncClient, api: ApiPart, body: bytes, headers: dict[str, str]) -> bool:
        """Whether the batch is written. Raises `RuntimeError` for a refusal that no further try would change."""
        try:
            answer = await client.post(api.url + "/v1/batch", content=body, headers=headers)
        except httpx.TransportError as error:
            if api is self.steady:
                self.faults.append(f"{type(error).__name__} from the steady process")
            return False
        if answer.status_code == 200:
            return True
        if answer.status_code >= 500 and api is self.steady:
            self.faults.append(answer.text[:300])
        if answer.status_code >= 500 or answer.json().get("code") == "idempotency_in_progress":
            return False
        raise RuntimeError(f"A batch was refused: {answer.text[:500]}")
