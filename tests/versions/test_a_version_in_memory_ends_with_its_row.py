"""Versions are answered from memory, the same as from PostgreSQL, and not after their deletion was heard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.embedded import Servers
from app.errors import NotFound
from app.http.remembered import Remembered
from app.http.service import Service
from app.surface import KINDS
from app.versions.store import KIND, key_of
from tests.conftest import ADMIN_KEY, Make, http, new_tenant, running, settings_for
from tests.waiting import eventually

LONG = 60.0


async def deleted(client: httpx.AsyncClient, service: Service, workflow_id: str) -> None:
    """The workflow and its versions are deleted, in the process of this service."""
    assert (await client.delete(f"/v1/workflows/{workflow_id}?cascade=true")).status_code == 202
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)


async def reads(service: Service) -> dict[str, int]:
    """How many reads of versions were answered from memory, and how many not."""
    async with http(service) as anyone:
        lines = (await anyone.get("/metrics")).text.splitlines()
    found = {}
    for outcome in ("hit", "miss"):
        start = f'cairn_cache_reads_total{{kind="version",outcome="{outcome}"}}'
        found[outcome] = next((int(float(line.split()[-1])) for line in lines if line.startswith(start)), 0)
    return found


async def test_a_version_from_memory_is_the_one_from_postgres_byte_for_byte(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version(dsl={"a": 1.0})
    path = f"/v1/versions/{version['id']}"
    before = await reads(service)
    first, second, named = [await client.get(f"{path}{query}") for query in ("", "", "?include=dsl")]
    assert {answer.content for answer in (first, second, named)} == {first.content}
    assert [answer.headers["etag"] for answer in (first, second)] == ['"1"', '"1"']
    assert (await client.get(path, headers={"if-none-match": '"1"'})).status_code == 304
    assert "dsl" not in (await client.get(f"{path}?include=")).json()
    assert (await client.head(path)).headers["content-length"] == str(len(first.content))
    after = await reads(service)
    assert {name: after[name] - before[name] for name in after} == {"hit": 3, "miss": 1}


async def test_a_version_in_memory_is_its_tenants_and_needs_its_scope(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    path = f"/v1/versions/{(await make.version(id='mine'))['id']}"
    assert (await client.get(path)).status_code == 200
    assert (await other.get(path)).status_code == 404
    async with await new_tenant(service, ("workflows:read",)) as stranger:
        assert (await stranger.get(path)).status_code == 403


async def test_a_deleted_version_is_gone_at_once_where_it_was_deleted(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version()
    path = f"/v1/versions/{version['id']}"
    for _ in range(2):
        assert (await client.get(path)).status_code == 200
    await deleted(client, service, version["workflow_id"])
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("told", [True, False], ids=["over NATS", "by its age"])
async def test_a_deleted_version_is_gone_in_every_process(
    told: bool, clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    nats = {"url": servers.nats_url, "subject_prefix": "versions"} if told else {}
    settings = settings_for(await clone(), nats=nats, http={"version_seconds": LONG if told else 0.3})
    async with (
        running(settings) as here, running(settings) as there,
        await new_tenant(here) as client, http(there, authorization=f"Bearer {ADMIN_KEY}") as anyone,
    ):  # fmt: skip
        anyone.headers["x-tenant-id"] = client.headers["x-test-tenant"]
        version = await Make(client).version()
        path = f"/v1/versions/{version['id']}"
        for _ in range(2):
            assert (await anyone.get(path)).status_code == 200
        await deleted(client, here, version["workflow_id"])

        async def gone() -> bool:
            return (await anyone.get(path)).status_code == 404

        await eventually(gone, "the deletion", seconds=3)


async def test_a_batch_reads_its_own_snapshot_and_leaves_nothing_of_it_in_memory(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow(id="w")
    new = {"id": "v", "dsl": {}, "operation": "init"}
    operations: list[dict[str, Any]] = [
        {"method": "POST", "path": "/v1/workflows/w/versions", "body": new},
        {"method": "GET", "path": "/v1/versions/v"},
        {"method": "GET", "path": "/v1/versions/missing"},
    ]
    assert (await client.post("/v1/batch", json={"operations": operations})).status_code == 404
    assert (await client.get("/v1/versions/v")).status_code == 404
    whole = await client.post("/v1/batch", json={"operations": operations[:2]})
    assert [result["status"] for result in whole.json()["results"]] == [201, 200]


class Source:
    """A row that is read slowly: it is looked at when the read begins, and told when the gate opens."""

    def __init__(self) -> None:
        self.there, self.loads = True, 0
        self.gate = asyncio.Event()

    async def load(self) -> bytes:
        """The row. Raises `NotFound`."""
        self.loads += 1
        there = self.there
        await self.gate.wait()
        if not there:
            raise NotFound("It is gone.")
        return b"row"


async def test_what_was_read_before_a_deletion_is_not_remembered_after_it() -> None:
    remembered, source = Remembered(KIND, LONG), Source()
    reading = asyncio.create_task(remembered.body("acme", "v", source.load))
    await asyncio.sleep(0)
    source.there = False
    remembered.heard(key_of("acme"))
    source.gate.set()
    assert await reading == b"row"
    with pytest.raises(NotFound):
        await remembered.body("acme", "v", source.load)


async def test_other_tenants_and_kinds_leave_memory_alone_and_a_gap_empties_it() -> None:
    remembered, source = Remembered(KIND, LONG), Source()
    source.gate.set()
    for heard, loads in ((key_of("other"), 1), (key_of("acme")._replace(kind="keys"), 1), (None, 2)):
        await remembered.body("acme", "v", source.load)
        remembered.heard(heard)
        await remembered.body("acme", "v", source.load)
        assert source.loads == loads


async def test_at_zero_seconds_every_read_asks_postgres(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), http={"version_seconds": 0})
    async with running(settings) as service, await new_tenant(service) as client:
        version = await Make(client).version()
        assert (await client.get(f"/v1/versions/{version['id']}")).status_code == 200
        changed = Statement("UPDATE versions SET commit_message = 'other' WHERE id = :id")
        await service.ground.database.rows(changed, id=version["id"])
        assert (await client.get(f"/v1/versions/{version['id']}")).json()["commit_message"] == "other"
