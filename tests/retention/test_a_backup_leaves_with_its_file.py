"""Backups that leave by a rule: the row in the transaction, its file after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import httpx

from app.background.runner import drain
from app.background.work import JobRunner
from app.backups.forgetting import forget
from app.backups.store import VERIFY_KIND
from app.backups.verifying import Verify
from app.blobs.folder import Folder
from app.db.sql import Statement
from app.http.service import Service
from app.retention.jobs import Retention
from app.retention.store import RUN_KIND
from tests.backups.making import asked, made, runner
from tests.conftest import new_tenant
from tests.payloads import problem


async def test_a_backup_leaves_with_its_file_but_for_what_keeps_it(fresh: Service) -> None:
    ground = fresh.ground
    async with await new_tenant(fresh) as client:
        old, read, pinned, latest = [(await made(fresh, client, artifacts="references"))["id"] for _ in range(4)]
        open_one = (await asked(client))["id"]
        assert (await client.put(f"/v1/pins/backup/{pinned}")).status_code == 201
        assert (await client.post(f"/v1/backups/{read}/verify")).status_code == 202
        await ground.database.rows(
            Statement(
                "UPDATE backups SET created_at = created_at - interval '40 days',"
                " completed_at = completed_at - interval '40 days' RETURNING id"
            )
        )
        rule = {"backups": {"max_age_days": 30, "keep_latest": 1}}
        assert (await follow(fresh, client, rule)) == {"backups": 1}
        assert await kept(client) == sorted([read, pinned, latest, open_one])
        files = {found.name async for found in ground.blobs.names(client.headers["x-test-tenant"])}
        assert files == {f"backup-{name}" for name in (read, pinned, latest)}
        assert (await client.get(f"/v1/backups/{old}")).status_code == 404


class Left(Folder):
    """A folder in which a backup is found to have left when its file is opened."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        folder = service.ground.blobs
        assert isinstance(folder, Folder)
        super().__init__(folder.folder, folder.wait_seconds)
        self.client = client

    async def open(self, tenant_id: str, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes, after somebody deleted the backup."""
        assert (await self.client.delete(f"/v1/backups/{name.removeprefix('backup-')}")).status_code == 204
        async for piece in super().open(tenant_id, name, start, end):
            yield piece


async def test_one_that_leaves_as_its_file_is_asked_for_is_not_there(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        backup = await made(fresh, client, artifacts="references")
        fresh.ground = replace(fresh.ground, blobs=Left(fresh, client))
        assert problem(await client.get(f"/v1/backups/{backup['id']}/content")) == (404, "backup_not_found")


async def follow(service: Service, client: httpx.AsyncClient, rules: dict[str, object]) -> dict[str, int]:
    """What leaves by these rules."""
    assert (await client.put("/v1/retention", json={"kinds": rules})).status_code == 200
    answer = await client.post("/v1/retention/runs", json={})
    retention = Retention(3, forget=partial(forget, service.ground.blobs))
    # What is carried out as a whole is left to another runner, which never comes.
    known = {RUN_KIND: retention, **runner(service).kinds, VERIFY_KIND: Verify(service.ground.blobs, 1 << 20)}
    await drain(JobRunner(known, 30, service.ground.hints).run, service.ground.database)
    job = (await client.get(answer.headers["location"])).json()
    assert job["state"] == "completed", job
    counts: dict[str, int] = job["counts"]
    return counts


async def kept(client: httpx.AsyncClient) -> list[str]:
    """The ids of the backups that are there."""
    return sorted(item["id"] for item in (await client.get("/v1/backups")).json()["items"])
