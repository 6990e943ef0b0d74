"""A worker that is killed at any moment of a restore leaves all of it or nothing, and another worker carries it out."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import asyncpg

from app.db.sql import Statement
from tests.api_process import Command
from tests.backups.files import many
from tests.conftest import Clone, new_tenant, running, settings_for
from tests.waiting import eventually

ROWS = 8_000
KILLS = 4
COUNTED = "SELECT count(*) FROM messages WHERE tenant_id = $1 AND id LIKE 'many %'"
DUE = Statement("UPDATE jobs SET lease_expires_at = clock_timestamp() WHERE id = :id AND state = 'running'")
ACTIVITY = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'cairn restore'"
)


async def test_whatever_moment_it_is_killed_at(clone: Clone, file: bytes, tmp_path: Path) -> None:
    url, chance = await clone(), random.Random()
    settings = {"blobs__folder": tmp_path, "background__job_lease_seconds": 5, "background__enabled": True}
    async with running(settings_for(url, blobs={"folder": tmp_path})) as own, await new_tenant(own) as client:
        sent = await client.post("/v1/backups/restore", content=many(file, "messages", ROWS))
        job_id, tenant_id = sent.json()["id"], client.headers["x-test-tenant"]
        connection = await asyncpg.connect(url)
        try:
            for _ in range(KILLS):
                worker = Command("worker", url=url, **settings)
                try:

                    async def begun() -> bool:
                        found = await connection.fetchval(ACTIVITY)
                        return bool(found) or (await _job(client, job_id))["state"] == "completed"

                    await eventually(begun, "a restore that is under way")
                    # Questions are the clock: after some of them, it is at some moment of its work.
                    for _ in range(chance.randrange(1500)):
                        await connection.fetchval(ACTIVITY)
                    worker.send(signal.SIGKILL)
                    worker.wait()
                finally:
                    worker.close()

                async def ended() -> bool:
                    return not await connection.fetchval(ACTIVITY)

                await eventually(ended, "the end of the session of a worker that was killed")
                done = (await _job(client, job_id))["state"] == "completed"
                assert await connection.fetchval(COUNTED, tenant_id) == (ROWS if done else 0)
                if done:
                    break
                await own.ground.database.rows(DUE, id=job_id)
            worker = Command("worker", url=url, **settings)
            try:

                async def completed() -> bool:
                    found = await _job(client, job_id)
                    assert found["state"] != "failed", found
                    return bool(found["state"] == "completed")

                await eventually(completed, "the restore that another worker carried out")
            finally:
                worker.close()
            assert await connection.fetchval(COUNTED, tenant_id) == ROWS
        finally:
            await connection.close()


async def _job(client: Any, job_id: str) -> dict[str, Any]:
    return dict((await client.get(f"/v1/jobs/{job_id}")).json())
