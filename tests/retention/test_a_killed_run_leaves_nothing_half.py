"""A worker that is killed in the middle of a run leaves things whole or gone, and another worker goes on."""

from __future__ import annotations

import random
import signal

import asyncpg

from tests.api_process import Command
from tests.conftest import Clone, Make, new_tenant, running, settings_for
from tests.waiting import eventually

INVOCATIONS, MESSAGES, KILLS = 400, 5, 3
FILL = (
    "INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, ended_at, digest)"
    " SELECT v.tenant_id, 'i' || n, v.id, v.workflow_id, 'completed', now() - interval '41 days',"
    " now() - interval '40 days', '\\x00' FROM versions AS v, generate_series(1, $2::int) AS n WHERE v.tenant_id = $1"
)
FILL_BELOW = (
    "INSERT INTO messages (tenant_id, invocation_id, id, seq, role, payload, digest)"
    " SELECT tenant_id, id, 'm' || n, n, 'user', '1', '\\x00' FROM invocations, generate_series(1, $2::int) AS n"
    " WHERE tenant_id = $1"
)
LEFT = "SELECT count(*) FROM invocations WHERE tenant_id = $1"
CUT = (
    "SELECT count(*) FROM invocations AS i WHERE i.tenant_id = $1 AND $2 <> (SELECT count(*) FROM messages AS m"
    " WHERE m.tenant_id = i.tenant_id AND m.invocation_id = i.id)"
)


async def test_whatever_moment_it_is_killed_at(clone: Clone) -> None:
    url, chance = await clone(), random.Random()
    settings = {
        "background__enabled": True, "background__job_lease_seconds": 1, "background__job_idle_seconds": 0.05,
        "retention__batch_rows": 20, "retention__look_seconds": 86_400,
    }  # fmt: skip
    async with running(settings_for(url)) as own, await new_tenant(own) as client:
        tenant_id = client.headers["x-test-tenant"]
        await Make(client).version()
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(FILL, tenant_id, INVOCATIONS)
            await connection.execute(FILL_BELOW, tenant_id, MESSAGES)
            await client.put("/v1/retention", json={"kinds": {"invocations": {"max_age_days": 30}}})
            job = (await client.post("/v1/retention/runs", json={})).headers["location"]
            left = INVOCATIONS
            for kill in range(KILLS):
                worker = Command("worker", url=url, **settings)
                try:
                    bound = left - chance.randrange(1, INVOCATIONS // KILLS - 20)

                    async def far_enough(bound: int = bound) -> bool:
                        return await connection.fetchval(LEFT, tenant_id) <= bound

                    await eventually(far_enough, "rows that leave")
                    worker.send(signal.SIGKILL)
                    worker.wait()
                finally:
                    worker.close()
                left = await connection.fetchval(LEFT, tenant_id)
                assert (kill, await connection.fetchval(CUT, tenant_id, MESSAGES)) == (kill, 0)
            assert 0 < left < INVOCATIONS
            worker = Command("worker", url=url, **settings)
            try:

                async def completed() -> bool:
                    return (await client.get(job)).json()["state"] == "completed"

                await eventually(completed, "the end of the run")
            finally:
                worker.close()
            counts = (await client.get(job)).json()["counts"]
            assert counts == {"invocations": INVOCATIONS, "messages": INVOCATIONS * MESSAGES}
            assert await connection.fetchval(LEFT, tenant_id) == 0
            followed = (await client.get("/v1/retention")).json()["kinds"]["invocations"]
            assert followed["last_counts"]["invocations"] == INVOCATIONS
        finally:
            await connection.close()
