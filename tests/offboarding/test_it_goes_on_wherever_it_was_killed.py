"""Kill -9 of the worker that carries an offboarding out: another goes on, and in the end nothing is left."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg

from app.offboarding.emptying import APART, tables
from app.tables import METADATA
from tests.api_process import Command
from tests.conftest import ADMIN_KEY, http, running, settings_for
from tests.offboarding.leaving import AT_ONCE, begun, carried_out, offboarder, places_in_folder
from tests.waiting import eventually

LEAVING = "acme-9b2f"
MESSAGES, OBJECTS, KILLS = 900, 12, 3


async def test_killed_at_random_moments_it_ends_with_every_row_counted_once(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    settings = settings_for(url, blobs={"folder": tmp_path}, auth={"cache_seconds": 0})
    async with running(settings) as service, http(service, authorization=f"Bearer {ADMIN_KEY}") as operator:
        assert (await operator.put(f"/v1/tenants/{LEAVING}", json={})).status_code == 201
        as_tenant = {"x-tenant-id": LEAVING}
        version = {"id": "v", "operation": "init", "dsl": {}, "nodes": [{"node_id": "n"}]}
        for path, body in (
            ("/v1/workflows", {"id": "w"}),
            ("/v1/workflows/w/versions", version),
            ("/v1/invocations", {"id": "i", "version_id": "v"}),
            ("/v1/invocations/i/messages", {"items": [{"role": "r", "payload": n} for n in range(MESSAGES)]}),
        ):
            made = await operator.post(path, json=body, headers=as_tenant)
            assert made.status_code in (200, 201), made.text
        for number in range(OBJECTS):
            sent = await operator.post("/v1/artifacts", content=str(number).encode(), headers=as_tenant)
            assert sent.status_code == 201
        offboarding = await begun(operator, LEAVING)

        async def counted() -> int:
            return int(await connection.fetchval("SELECT COALESCE((counts ->> 'messages')::int, 0) FROM offboardings"))

        chance, stood = random.Random(7), list[int]()
        for kill in range(KILLS):
            await connection.execute("UPDATE offboardings SET lease_expires_at = NULL")
            before = await counted()
            worker = Command(
                "worker", url=url, blobs__folder=tmp_path, offboarding__batch_rows=1, offboarding__settle_seconds=0,
                offboarding__look_seconds=0.05,
            )  # fmt: skip
            try:

                async def moved(before: int = before) -> bool:
                    return await counted() > before or (await state()) == "completed"

                async def state() -> str:
                    return str(await connection.fetchval("SELECT state FROM offboardings"))

                await eventually(moved, f"progress of worker {kill}")
                await asyncio.sleep(chance.uniform(0, 0.1))
                worker.send(signal.SIGKILL)
            finally:
                worker.close()
            stood.append(await counted())
        assert 0 < stood[0] < MESSAGES, "it was to be killed before its end"
        await connection.execute("UPDATE offboardings SET lease_expires_at = NULL")
        await carried_out(offboarder(tmp_path, settings=AT_ONCE), service.ground.database)
        ended = (await operator.get(f"/v1/offboardings/{offboarding['id']}")).json()
        assert (ended["state"], ended["counts"]["messages"]) == ("completed", MESSAGES)
        assert ended["counts"]["objects"] == OBJECTS
        assert places_in_folder(tmp_path, LEAVING) == []
        for table in METADATA.tables.values():
            if "tenant_id" in table.c:
                assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", LEAVING) == 0
    await connection.close()


def test_every_table_has_its_place_and_what_refers_to_others_goes_before_them() -> None:
    order = [table.name for table in tables()]
    owned = {name for name, table in METADATA.tables.items() if "tenant_id" in table.c}
    assert sorted(order) == sorted(owned - APART)
    for name in order:
        for reference in METADATA.tables[name].foreign_key_constraints:
            parent = reference.referred_table.name
            circle = (name, parent) == ("generations", "versions")
            if parent in order and parent != name and not circle:
                assert order.index(name) < order.index(parent), (name, parent)


async def test_rows_that_descend_from_each_other_go_in_batches_whatever_their_age_says(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    settings = settings_for(url, blobs={"folder": tmp_path}, auth={"cache_seconds": 0})
    async with running(settings) as service, http(service, authorization=f"Bearer {ADMIN_KEY}") as operator:
        assert (await operator.put(f"/v1/tenants/{LEAVING}", json={})).status_code == 201
        await operator.post("/v1/workflows", json={"id": "w"}, headers={"x-tenant-id": LEAVING})
        for number in range(40):
            parent: dict[str, Any] = {"operation": "init"} if number == 0 else {"operation": "mutation"}
            if number:
                parent["parent1_id"] = f"v{number - 1:02}"
            body = {"id": f"v{number:02}", "dsl": {"n": number}, "nodes": [{"node_id": "n"}], **parent}
            made = await operator.post("/v1/workflows/w/versions", json=body, headers={"x-tenant-id": LEAVING})
            assert made.status_code == 201, made.text
        # As an import may leave them: the oldest by its descent is the newest by its time.
        await connection.execute(
            "UPDATE versions SET created_at = now() - CAST(substr(id, 2) AS int) * interval '1 day'"
        )
        offboarding = await begun(operator, LEAVING, service.ground.database)
        await carried_out(offboarder(tmp_path, signer=None), service.ground.database)
        ended = (await operator.get(f"/v1/offboardings/{offboarding['id']}")).json()
        assert (ended["state"], ended["counts"]["versions"]) == ("completed", 40)
        receipt = (await operator.get(f"/v1/offboardings/{offboarding['id']}/receipt")).content
        assert json.loads(receipt)["signature"] is None
    await connection.close()
