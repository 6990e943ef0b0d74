"""However short the grace period is, the bytes of artifacts are there for a backup, and stay for a restore."""

from __future__ import annotations

from app.background.runner import drain
from app.db.sql import Statement
from app.http.service import Service
from tests.artifacts.artifacts import hash_of, store
from tests.artifacts.collecting import age, collection_of, states
from tests.backups.making import asked, file_of, runner
from tests.conftest import new_tenant

LIMIT = 100
# As a restore leaves what it has put into the object store.
BEGUN = Statement("UPDATE artifacts SET state = 'uploading' WHERE tenant_id = :tenant_id")


async def collected(service: Service) -> dict[str, str]:
    """What is left when the grace period has passed twice, with a round of collection after each."""
    for _ in range(2):
        await age(service)
        await collection_of(service).collect(service.ground.database, LIMIT)
    return await states(service)


async def test_a_backup_finds_what_was_there_when_it_was_asked_for(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        await store(client, b"x")
        backup = await asked(client)
        assert await collected(fresh) == {hash_of(b"x"): "live"}
        await drain(runner(fresh).run, fresh.ground.database, limit=1)
        made = (await client.get(f"/v1/backups/{backup['id']}")).json()
        assert len((await file_of(client, made)).rows("artifact_bytes")) == 1

    assert await collected(fresh) == {hash_of(b"x"): "gone"}


async def test_what_a_restore_has_brought_waits_for_its_rows(fresh: Service) -> None:
    async with await new_tenant(fresh) as client, await new_tenant(fresh) as other:
        await store(client, b"x")
        await store(other, b"y")
        for one in (client, other):
            await fresh.ground.database.rows(BEGUN, tenant_id=one.headers["x-test-tenant"])
        answer = await client.post("/v1/backups/restore", content=b"not read yet")
        assert await collected(fresh) == {hash_of(b"x"): "uploading", hash_of(b"y"): "gone"}

        assert (await client.post(f"{answer.headers['location']}/cancel")).status_code == 200
        assert await collected(fresh) == {hash_of(b"x"): "gone", hash_of(b"y"): "gone"}
