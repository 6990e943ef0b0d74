"""B37: an export is one point in time, in constant memory; what interrupts it leaves no shortened file."""

from __future__ import annotations

import asyncio
import signal
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from app.background.runner import drain
from app.backups.store import object_of
from app.blobs.folder import Folder
from app.db.sql import Statement
from app.events.jobs import drop_empty_months
from app.http.service import Service
from tests.api_process import Command
from tests.backups.making import MANY, Slow, asked, connected, dangling, file_of, made, many, runner
from tests.conftest import Make, new_tenant, running, settings_for
from tests.payloads import problem
from tests.waiting import eventually, held_up

# Of the session that reads for a backup.
SESSION = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'cairn backup'"
DUE = Statement("UPDATE jobs SET lease_expires_at = clock_timestamp() WHERE id = :id AND state = 'running'")


async def test_b37_what_is_written_and_deleted_meanwhile_leaves_nothing_that_dangles(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    kept = (await make.invocation())["id"]
    await make.created(f"/v1/invocations/{kept}/messages", role="r", payload="kept")
    doomed = await make.version()
    backup = await asked(client)
    async with connected(service.ground.database.url) as other:
        held = other.transaction()
        await held.start()
        # The snapshot is taken, and nothing is read yet.
        await other.execute("LOCK TABLE mcp_tools IN ACCESS EXCLUSIVE MODE")
        working = asyncio.ensure_future(runner(service).run(service.ground.database, 1))
        await held_up(service)
        later = (await make.invocation(version_id=doomed["id"]))["id"]
        await make.created(f"/v1/invocations/{kept}/messages", role="r", payload="later")
        await other.execute("DELETE FROM invocations WHERE id = $1", later)
        for table, column in (("node_versions", "version_id"), ("versions", "id"), ("workflows", "id")):
            key = doomed["workflow_id" if table == "workflows" else "id"]
            await other.execute(f"DELETE FROM {table} WHERE {column} = $1", key)
        await held.commit()
        await working
    file = await file_of(client, (await client.get(f"/v1/backups/{backup['id']}")).json())
    assert dangling(file) == []
    assert [row["payload"] for row in file.rows("messages")] == ['"kept"']
    assert [row["id"] for row in file.rows("invocations")] == [kept]
    assert doomed["id"] in [row["id"] for row in file.rows("versions")]


async def test_b37_a_month_of_events_that_leaves_meanwhile_is_in_it(fresh: Service) -> None:
    database = fresh.ground.database
    async with await new_tenant(fresh) as client, connected(database.url) as other:
        await other.execute(
            "CREATE TABLE events_p_2024_01 PARTITION OF events FOR VALUES FROM ('2024-01-01Z') TO ('2024-02-01Z')"
        )
        await other.execute(
            "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at,"
            " data) VALUES ($1, 1, '2024-01-05Z', 'e', 'workflow.created', 'workflow', 'w', now(), '{}')",
            client.headers["x-test-tenant"],
        )
        backup = await asked(client)
        async with connected(database.url) as holder, holder.transaction():
            # The snapshot is taken, and this is the first section that is read.
            await holder.execute("LOCK TABLE stream_paths IN ACCESS EXCLUSIVE MODE")
            working = asyncio.ensure_future(runner(fresh).run(database, 1))
            await held_up(fresh)
            await other.execute("DELETE FROM events")
            assert await drop_empty_months(database, 100) == 0
        await working
        file = await file_of(client, (await client.get(f"/v1/backups/{backup['id']}")).json())
        assert [row["id"] for row in file.rows("events")] == ["e"]
        assert await drop_empty_months(database, 100) == 1


async def test_b37_no_file_dangles_while_writers_go_on(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    stop = asyncio.Event()

    async def write(number: int) -> None:
        while not stop.is_set():
            version = await make.version()
            for _ in range(3):
                invocation = (await make.invocation(version_id=version["id"]))["id"]
                await make.created(f"/v1/invocations/{invocation}/messages", role="r", payload=number)
                await client.delete(f"/v1/invocations/{invocation}")
            await make.invocation(version_id=version["id"])

    writing = [asyncio.ensure_future(write(number)) for number in range(3)]
    try:
        files = [await file_of(client, await made(service, client)) for _ in range(3)]
    finally:
        stop.set()
        await asyncio.gather(*writing)
    assert [dangling(file) for file in files] == [[]] * 3
    assert len(files[0].lines["versions"]) < len(files[2].lines["versions"])


async def test_b37_a_session_that_is_ended_half_way_leaves_no_file_and_the_job_begins_again(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    # Twelve MiB: more than lies between PostgreSQL and the object store.
    await many(service, client, make, 120, 3_200)
    backup, blobs = await asked(client), Slow(service)
    tenant, path = client.headers["x-test-tenant"], f"/v1/backups/{backup['id']}"
    working = asyncio.ensure_future(runner(service, blobs=blobs).run(service.ground.database, 1))
    await asyncio.wait_for(blobs.begun.wait(), 40)
    async with connected(service.ground.database.url) as other:
        assert await other.fetchval(f"SELECT count(pg_terminate_backend(pid)) FROM ({SESSION}) AS s") == 1
    blobs.go_on.set()
    await working
    found = (await client.get(path)).json()
    assert (found["state"], found["error"]["code"], found["manifest"]) == ("running", "unavailable", None)
    assert problem(await client.get(f"{path}/content")) == (409, "backup_not_ready")
    assert await blobs.size(tenant, object_of(backup["id"])) is None
    await service.ground.database.rows(DUE, id=backup["job_id"])
    await drain(runner(service).run, service.ground.database, limit=1)
    file = await file_of(client, (await client.get(path)).json())
    assert len(file.lines["messages"]) == 120


async def test_b37_a_worker_that_is_killed_half_way_leaves_no_file_and_another_begins_again(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url = await clone()
    settings = {"blobs__folder": tmp_path, "background__job_lease_seconds": 5, "background__enabled": True}
    async with running(settings_for(url, blobs={"folder": tmp_path})) as own, await new_tenant(own) as client:
        invocation = (await Make(client).invocation())["id"]
        backup = await asked(client)
        path = f"/v1/backups/{backup['id']}"
        async with connected(url) as other:
            await other.execute(MANY, client.headers["x-test-tenant"], invocation, 100, 3_200)
            held = other.transaction()
            await held.start()
            await other.execute("LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
            worker = Command("worker", url=url, **settings)
            try:
                await held_up(own)
                worker.send(signal.SIGKILL)
                worker.wait()
            finally:
                worker.close()
            await held.commit()
        assert (await client.get(path)).json()["state"] == "running"
        assert problem(await client.get(f"{path}/content")) == (409, "backup_not_ready")
        worker = Command("worker", url=url, **settings)
        try:

            async def completed() -> dict[str, Any] | None:
                found = (await client.get(path)).json()
                return found if found["state"] == "completed" else None

            found = await eventually(completed, "the backup that another worker made")
        finally:
            worker.close()
        assert len((await file_of(client, found)).lines["messages"]) == 100


async def test_b37_an_export_takes_no_more_memory_for_more_rows(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await many(service, client, make, 1_000, 1_500)
    backup = await asked(client)
    tracemalloc.start()
    try:
        await runner(service).run(service.ground.database, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = (await client.get(f"/v1/backups/{backup['id']}")).json()
    assert found["state"] == "completed", found
    assert found["size_bytes"] > 24_000_000
    # Twelve are what the object store holds of it: see app/blobs/objects.py.
    assert peak < 40_000_000 < found["manifest"]["bytes"]


class Collecting(Folder):
    """A folder out of which an artifact is collected just before it is read."""

    def __init__(self, service: Service, digest: str) -> None:
        folder = service.ground.blobs
        assert isinstance(folder, Folder)
        super().__init__(folder.folder, folder.wait_seconds)
        self.service, self.digest = service, digest

    async def open(self, tenant_id: str, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes, unless they are collected by now."""
        if name == self.digest:
            async with self.service.ground.database.writing() as transaction:
                await transaction.connection.execute(
                    "UPDATE artifacts SET state = 'gone' WHERE tenant_id = $1", tenant_id
                )
            await self.delete(tenant_id, name)
        async for piece in super().open(tenant_id, name, start, end):
            yield piece


async def test_an_artifact_that_is_collected_meanwhile_makes_another_snapshot(
    service: Service, client: httpx.AsyncClient
) -> None:
    digest = (await client.post("/v1/artifacts", content=b"soon gone")).json()["hash"]
    backup = await asked(client)
    await runner(service, blobs=Collecting(service, digest)).run(service.ground.database, 1)
    file = await file_of(client, (await client.get(f"/v1/backups/{backup['id']}")).json())
    assert (file.lines["artifacts"], file.lines["artifact_bytes"]) == ([], [])


async def test_an_artifact_that_is_damaged_fails_the_job_and_is_named(
    service: Service, client: httpx.AsyncClient
) -> None:
    digest = (await client.post("/v1/artifacts", content=b"to be damaged")).json()["hash"]
    blobs = service.ground.blobs
    assert isinstance(blobs, Folder)
    (blobs.folder / client.headers["x-test-tenant"] / digest).write_bytes(b"to be damageD")
    backup = await asked(client)
    await runner(service).run(service.ground.database, 1)
    found = (await client.get(f"/v1/backups/{backup['id']}")).json()
    assert (found["state"], found["error"]["code"], found["error"]["hash"]) == ("failed", "artifact_integrity", digest)


async def test_a_backup_waits_until_secrets_are_cut(service: Service, client: httpx.AsyncClient) -> None:
    await client.put("/v1/documents/jobs", json={"secret_paths": ["/token"]})
    backup = await asked(client)
    tenant, uncut = client.headers["x-test-tenant"], "UPDATE document_collections SET uncut = $2 WHERE tenant_id = $1"
    async with connected(service.ground.database.url) as other:
        await other.execute(uncut, tenant, True)
        await runner(service).run(service.ground.database, 1)
        found = (await client.get(f"/v1/backups/{backup['id']}")).json()
        assert (found["state"], found["error"]["code"]) == ("running", "unavailable")
        await other.execute(uncut, tenant, False)
    await service.ground.database.rows(DUE, id=backup["job_id"])
    await runner(service).run(service.ground.database, 1)
    assert (await client.get(f"/v1/backups/{backup['id']}")).json()["state"] == "completed"
