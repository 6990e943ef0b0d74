"""With an export a tenant is closed, and nothing of it leaves before somebody says that the file is in good hands."""

from __future__ import annotations

import json
from hashlib import sha256

from app.background.runner import drain
from app.background.work import JobRunner
from app.backups.exporting import Export
from app.backups.store import CREATE_KIND
from app.db.sql import Statement
from app.documents.collection_store import CUT_KIND, Cut
from app.documents.jobs import cut_documents
from app.jobs import store as jobs
from tests.conftest import http, running, settings_for
from tests.offboarding.leaving import LEAVING, SIGNER, Place, begun, carried_out


async def test_with_an_export_nothing_leaves_before_it_is_confirmed(place: Place) -> None:
    database = place.service.ground.database
    client = await place.client(LEAVING)
    assert (await client.put("/v1/workflows/w", json={})).status_code == 201
    begun_first = await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")
    again = await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")
    offboarding = begun_first.json()
    assert (begun_first.status_code, offboarding["state"]) == (202, "exporting")
    assert (again.json()["id"], again.json()["export"]) == (offboarding["id"], offboarding["export"])
    assert (await client.get("/v1/workflows")).status_code == 403
    path = f"/v1/offboardings/{offboarding['id']}"
    early = [await place.operator.post(f"{path}/confirm"), await place.operator.get(f"{path}/export")]
    assert [answer.status_code for answer in early] == [409, 409]
    # The runner of jobs takes this one of a closed tenant, and no other.
    await database.rows(
        Statement("INSERT INTO jobs (tenant_id, id, kind, arguments) VALUES (:tenant_id, 'j', 'backup.verify', '{}')"),
        tenant_id=LEAVING,
    )
    export = Export(settings_for(database.url).database, place.service.ground.blobs, 3, SIGNER)
    wholes = JobRunner({CREATE_KIND: export, "backup.verify": export}, 30, place.service.ground.hints, as_a_whole=True)
    await database.execute("UPDATE jobs SET lease_expires_at = NULL")
    assert await wholes.run(database, 1) == 1
    exported = await place.offboarding(offboarding["id"])
    assert exported["state"] == "exported"
    assert await wholes.run(database, 1) == 0
    file = await place.operator.get(f"{path}/export")
    assert sha256(file.content).hexdigest() == exported["export"]["digest"]
    part = await place.operator.get(f"{path}/export", headers={"range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, file.content[:10])
    assert await place.runner.run(database, 1) == 0
    assert (await place.operator.post(f"{path}/confirm")).json()["state"] == "closed"
    assert (await place.operator.post(f"{path}/cancel")).status_code == 409
    await carried_out(place.runner, database)
    ended = await place.offboarding(offboarding["id"])
    assert (ended["state"], ended["export"], ended["counts"]["backups"]) == ("completed", None, 1)
    assert (await place.operator.post(f"{path}/confirm")).json()["state"] == "completed"


async def test_what_a_process_writes_that_does_not_know_yet_is_in_the_export(place: Place) -> None:
    database, client = place.service.ground.database, await place.client(LEAVING)
    export = Export(settings_for(database.url).database, place.service.ground.blobs, 3, SIGNER)
    wholes = JobRunner({CREATE_KIND: export}, 30, place.service.ground.hints, as_a_whole=True)
    settings = settings_for(database.url, auth={"cache_seconds": 5})
    async with running(settings) as deaf, http(deaf, authorization=client.headers["authorization"]) as elsewhere:
        assert (await elsewhere.get("/v1/workflows")).status_code == 200
        offboarding = (await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")).json()
        begun_early = await wholes.run(database, 1)
        assert (await elsewhere.put("/v1/workflows/late", json={})).status_code == 201
    await database.execute("UPDATE jobs SET lease_expires_at = NULL")
    assert (begun_early, await wholes.run(database, 1)) == (0, 1)
    made = await database.rows(Statement("SELECT manifest FROM backups"))
    rows = {one["name"]: one["rows"] for one in json.loads(made[0]["manifest"])["sections"]}
    assert rows["workflows"] == 1
    assert (await place.offboarding(offboarding["id"]))["state"] == "exported"


async def test_secrets_that_are_still_being_cut_do_not_hold_the_export_up_for_ever(place: Place) -> None:
    database, client = place.service.ground.database, await place.client(LEAVING)
    assert (await client.put("/v1/documents/c/d", json={"key": "k"})).status_code == 201
    made = (await client.put("/v1/documents/c", json={"secret_paths": ["/key"]})).json()
    # As where there are too many documents to be cut at once.
    await database.execute("UPDATE document_collections SET uncut = true")
    left = Cut(LEAVING, "c", ("/key",), made["created_at"]).arguments()
    await jobs.create(database.once(LEAVING), LEAVING, CUT_KIND, left)
    offboarding = (await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")).json()
    await database.execute("UPDATE jobs SET lease_expires_at = NULL")
    hints, settings = place.service.ground.hints, settings_for(database.url).database
    kinds = {CUT_KIND: cut_documents, CREATE_KIND: Export(settings, place.service.ground.blobs, 3, SIGNER)}
    for as_a_whole in (False, True):
        await drain(JobRunner(kinds, 30, hints, as_a_whole=as_a_whole).run, database)
    assert (await place.offboarding(offboarding["id"]))["state"] == "exported"


async def test_cancelled_while_it_exports_the_tenant_is_as_it_was(place: Place) -> None:
    client = await place.client(LEAVING)
    assert (await client.put("/v1/workflows/w", json={})).status_code == 201
    offboarding = (await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")).json()
    assert (await client.get("/v1/workflows/w")).status_code == 403
    path = f"/v1/offboardings/{offboarding['id']}"
    assert (await place.operator.post(f"{path}/cancel")).status_code == 204
    assert (await client.get("/v1/workflows/w")).status_code == 200
    assert (await place.operator.get(f"/v1/tenants/{LEAVING}")).json()["closed_at"] is None
    assert (await place.operator.get(path)).status_code == 404
    assert (await place.operator.post(f"{path}/cancel")).status_code == 404
    # Its backup is made as any other, and it can leave another time.
    assert len((await client.get("/v1/backups")).json()["items"]) == 1
    assert (await begun(place.operator, LEAVING))["id"] != offboarding["id"]


async def test_an_export_that_cannot_be_made_is_told_and_cancelled(place: Place) -> None:
    await place.client(LEAVING)
    offboarding = (await place.operator.delete(f"/v1/tenants/{LEAVING}?export=true")).json()
    await place.service.ground.database.execute(
        "UPDATE jobs SET state = 'failed', ended_at = now(), error = '{\"code\": \"unavailable\"}'"
    )
    failed = await place.offboarding(offboarding["id"])
    assert (failed["state"], failed["export"]["error"]) == ("failed", {"code": "unavailable"})
    assert (await place.operator.post(f"/v1/offboardings/{offboarding['id']}/cancel")).status_code == 204
