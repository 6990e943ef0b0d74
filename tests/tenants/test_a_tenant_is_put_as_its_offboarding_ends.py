"""PUT of a tenant at the very moment at which its offboarding is called off."""

from __future__ import annotations

import asyncio

import asyncpg

from app.http.service import Service
from tests.conftest import ADMIN_KEY, http

ROUNDS = 30


async def test_it_is_leaving_or_it_is_put_and_no_precondition_is_made_up(fresh: Service) -> None:
    connection = await asyncpg.connect(fresh.ground.database.url)
    answers = []
    async with http(fresh, authorization=f"Bearer {ADMIN_KEY}") as operator:
        for number in range(ROUNDS):
            name = f"t{number}"
            await connection.execute("INSERT INTO tenants (tenant_id, closed_at) VALUES ($1, now())", name)
            await connection.execute(
                "INSERT INTO offboardings (tenant_id, id, state) VALUES ($1, $1, 'exporting')", name
            )
            _, put = await asyncio.gather(
                operator.post(f"/v1/offboardings/{name}/cancel"), operator.put(f"/v1/tenants/{name}", json={})
            )
            answers.append(put.status_code)
    await connection.close()
    assert set(answers) <= {200, 409}
