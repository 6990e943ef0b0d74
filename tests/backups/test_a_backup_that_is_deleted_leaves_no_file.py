"""A backup that is deleted, at whatever moment, goes with its job and its file; what is left over is swept up."""

from __future__ import annotations

import asyncio

import httpx

from app.backups.store import left_over, object_of
from app.blobs.blobs import Found
from app.http.service import Service
from tests.backups.making import Slow, asked, connected, made, many, runner
from tests.conftest import Make
from tests.waiting import held_up


async def test_a_backup_that_is_deleted_while_it_is_made_goes_with_its_job_and_its_file(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await many(service, client, make, 60, 3_200)
    tenant = client.headers["x-test-tenant"]
    backup, blobs = await asked(client), Slow(service)
    working = asyncio.ensure_future(runner(service, lease_seconds=0.3, blobs=blobs).run(service.ground.database, 1))
    await asyncio.wait_for(blobs.begun.wait(), 40)
    assert (await client.delete(f"/v1/backups/{backup['id']}")).status_code == 204
    await working
    assert (await client.get(f"/v1/jobs/{backup['job_id']}")).json()["state"] == "cancelled"
    assert await blobs.size(tenant, object_of(backup["id"])) is None


async def test_a_backup_that_is_deleted_when_its_last_part_is_stored_leaves_no_file(
    service: Service, client: httpx.AsyncClient
) -> None:
    tenant = client.headers["x-test-tenant"]
    backup, blobs = await asked(client), Slow(service)
    blobs.go_on.set()
    blobs.return_at_last.clear()
    working = asyncio.ensure_future(runner(service, blobs=blobs).run(service.ground.database, 1))
    await asyncio.wait_for(blobs.stored.wait(), 40)
    # Its object is looked for before it is there, as far as the one who deletes can see.
    async with service.ground.database.writing() as transaction:
        await transaction.connection.execute("DELETE FROM backups WHERE id = $1", backup["id"])
    blobs.return_at_last.set()
    await working
    job = (await client.get(f"/v1/jobs/{backup['job_id']}")).json()
    assert (job["state"], job["error"]["code"]) == ("failed", "backup_not_found")
    assert await blobs.size(tenant, object_of(backup["id"])) is None


async def test_who_deletes_a_backup_waits_for_the_end_of_its_job_and_nobody_for_each_other(
    service: Service, client: httpx.AsyncClient
) -> None:
    backup = await asked(client)
    async with connected(service.ground.database.url) as connection:
        # The end of the job sees a circle first, if there is one.
        await connection.execute("SET deadlock_timeout = '1ms'")
        async with connection.transaction():
            await connection.execute("UPDATE jobs SET progress_done = 1 WHERE id = $1", backup["job_id"])
            deleting = asyncio.ensure_future(client.delete(f"/v1/backups/{backup['id']}"))
            await held_up(service)
            await connection.execute("UPDATE backups SET verified_at = now() WHERE id = $1", backup["id"])
        assert (await deleting).status_code == 204
    assert (await client.get(f"/v1/backups/{backup['id']}")).status_code == 404


async def test_what_no_backup_and_no_restore_needs_is_left_over(service: Service, client: httpx.AsyncClient) -> None:
    tenant = client.headers["x-test-tenant"]
    done, waits = await made(service, client), await asked(client)
    gone = await asked(client)
    await client.post(f"/v1/jobs/{gone['job_id']}/cancel")
    names = [
        object_of(done["id"]), object_of(waits["id"]), f"restore-{waits['job_id']}", "backup", "README",
        object_of(gone["id"]), object_of("nobody"), f"restore-{gone['job_id']}", "restore-nobody",
    ]  # fmt: skip
    now = (await client.get("/v1/backups")).json()["items"][0]["created_at"]
    found = [Found(tenant, name, 1, now) for name in names]
    assert {one.name for one in await left_over(service.ground.database, found)} == set(names[5:])
    await client.delete(f"/v1/backups/{waits['id']}")
