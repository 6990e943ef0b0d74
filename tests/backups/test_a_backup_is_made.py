"""A backup is asked for, made by a job, downloaded, listed and deleted."""

from __future__ import annotations

import json

import asyncpg
import httpx
import pyrage
import pytest

from app.background.runner import drain
from app.db.sql import Statement
from app.http.service import Service
from tests.backups.making import asked, dangling, file_of, made, read, runner
from tests.conftest import Make
from tests.contract.script import arrange
from tests.payloads import PAYLOADS, problem

# Of these only what has ended, or is there, is in a backup.
SOME = {"webhook_deliveries", "webhook_attempts", "artifacts", "content_chunks", "contents"}


async def test_an_empty_tenant_has_a_backup(service: Service, client: httpx.AsyncClient) -> None:
    backup = await made(service, client, label="of nothing")
    file = await file_of(client, backup)
    assert {name: file.rows(name) for name, lines in file.lines.items() if lines} == {
        "event_heads": [{"position": 0, "earliest": 1}]
    }
    assert (backup["label"], backup["progress"]) == ("of nothing", {"done": 1, "total": 1})


async def test_who_waits_for_it_is_told_once_it_is_there(service: Service, client: httpx.AsyncClient) -> None:
    backup = await made(service, client, label="weekly")
    told = Statement("SELECT type, subject_id, data FROM outbox WHERE tenant_id = :t AND subject_type = 'backup'")
    (event,) = await service.ground.database.rows(told, t=client.headers["x-test-tenant"])
    assert (event["type"], event["subject_id"]) == ("backup.completed", backup["id"])
    data = json.loads(event["data"])
    # As the list shows it.
    assert (backup["label"], backup["state"]) == ("weekly", "completed")
    assert data == {name: value for name, value in backup.items() if name != "manifest"}
    # It came after the moment of the backup.
    assert (await file_of(client, backup)).lines["events"] == []


async def test_every_row_of_every_domain_is_in_it_and_refers_to_nothing_else(
    service: Service, client: httpx.AsyncClient
) -> None:
    await arrange(client, client.headers["x-test-tenant"], service.ground.database.url)
    file = await file_of(client, await made(service, client))
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        tables = sorted(set(file.lines) - {"artifact_bytes", "attachment_chunks"} - SOME)
        counting = " UNION ALL ".join(
            f"SELECT '{table}' AS name, count(*) AS n FROM {table} WHERE tenant_id = $1" for table in tables
        )
        counts = await connection.fetch(counting, client.headers["x-test-tenant"])
    finally:
        await connection.close()
    assert {row["name"]: row["n"] for row in counts} == {name: len(file.lines[name]) for name in tables}
    assert len([name for name, lines in file.lines.items() if lines]) > 40
    assert dangling(file) == []
    [part] = file.rows("artifact_bytes")
    assert part["hash"] == file.rows("artifacts")[0]["hash"]
    chunks = {(row["path"], row["id"], row["position"]) for row in file.rows("attachment_chunks")}
    assert chunks == {(row["path"], row["id"], 0) for row in file.rows("attachments")}
    # It stands in the file as it was when it was made, and says the same when it is made again.
    again = await file_of(client, await made(service, client))
    assert again.manifest["total_sha256"] == file.manifest["total_sha256"]


async def test_payloads_stand_in_it_byte_for_byte(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for name, payload in PAYLOADS.items():
        body = b'{"id":"%b","version_id":"%b","input":%b}' % (name.encode(), version.encode(), payload)
        answer = await client.post("/v1/invocations", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 201, answer.text
    file = await file_of(client, await made(service, client))
    found = {row["id"]: row["input"] for row in file.rows("invocations")}
    # A null is no input.
    assert found.pop("null") is None
    assert found == {name: payload.decode() for name, payload in PAYLOADS.items() if name != "null"}


async def test_what_only_some_sections_need_comes_with_them(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.created(f"/v1/invocations/{(await make.invocation())['id']}/messages", role="r", payload=1)
    await make.created("/v1/sessions", id="left out")
    backup = await made(service, client, sections=["messages"])
    file = await file_of(client, backup)
    assert backup["sections"] == file.head["sections"]
    assert {"messages", "invocations", "versions", "workflows"} <= set(file.lines)
    assert "sessions" not in file.lines
    assert dangling(file) == []
    refused = await client.post("/v1/backups", json={"sections": ["messages", "nothing"]})
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == "sections/1"


async def test_artifacts_may_be_named_without_their_bytes(service: Service, client: httpx.AsyncClient) -> None:
    await client.post("/v1/artifacts", content=b"x" * 3_000_000)
    file = await file_of(client, await made(service, client, artifacts="references"))
    assert (file.head["artifacts"], len(file.rows("artifacts"))) == ("references", 1)
    assert "artifact_bytes" not in file.lines
    whole = await file_of(client, await made(service, client))
    assert [row["position"] for row in whole.rows("artifact_bytes")] == [0, 1, 2]


async def test_an_encrypted_one_is_read_by_its_recipients_alone(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    workflow = await make.workflow(name="secret to all but two")
    keys = [pyrage.x25519.Identity.generate() for _ in range(2)]
    backup = await made(service, client, recipients=[str(key.to_public()) for key in keys])
    answer = await client.get(f"/v1/backups/{backup['id']}/content")
    assert answer.headers["content-disposition"].endswith('.ndjson.zst.age"')
    assert len(answer.content) == backup["size_bytes"]
    assert answer.headers["etag"] == f'"{backup["digest"]}"'
    for key in keys:
        file = read(pyrage.decrypt(answer.content, [key]))
        assert [row["id"] for row in file.rows("workflows")] == [workflow["id"]]
        assert file.manifest == backup["manifest"]
    assert b"zst" not in answer.content[:64]
    refused = await client.post("/v1/backups", json={"recipients": ["age1nobody"]})
    assert problem(refused) == (422, "invalid_input")


async def test_a_download_is_taken_up_again_by_ranges(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow()
    backup = await asked(client)
    path = f"/v1/backups/{backup['id']}/content"
    early = await client.get(path)
    assert problem(early) == (409, "backup_not_ready")
    assert (early.json()["current_state"], early.json()["job_id"]) == ("queued", backup["job_id"])
    await drain(runner(service).run, service.ground.database, limit=1)
    whole = await client.get(path)
    tenant = client.headers["x-test-tenant"]
    assert whole.headers["content-type"] == "application/x-ndjson+zstd"
    assert whole.headers["content-disposition"] == (f'attachment; filename="cairn-{tenant}-{backup["id"]}.ndjson.zst"')
    tag = whole.headers["etag"]
    rest = await client.get(path, headers={"range": "bytes=100-", "if-range": tag})
    assert (rest.status_code, whole.content[:100] + rest.content) == (206, whole.content)
    other = await client.get(path, headers={"range": "bytes=100-", "if-range": '"other"'})
    assert (other.status_code, other.content) == (200, whole.content)
    beyond = await client.get(path, headers={"range": f"bytes={len(whole.content)}-"})
    assert problem(beyond) == (416, "range_not_satisfiable")
    assert (await client.get(path, headers={"if-none-match": tag})).status_code == 304
    await service.ground.blobs.delete(tenant, f"backup-{backup['id']}")
    assert problem(await client.get(path)) == (500, "backup_missing")


async def test_backups_are_listed_by_their_state_and_gone_when_deleted(
    service: Service, client: httpx.AsyncClient
) -> None:
    done, waits = await made(service, client, label="done"), await asked(client, label="waits")
    listed = (await client.get("/v1/backups")).json()["items"]
    assert [(one["label"], one["state"]) for one in listed] == [("waits", "queued"), ("done", "completed")]
    assert "manifest" not in listed[1]
    [one] = (await client.get("/v1/backups?state=completed&include=manifest")).json()["items"]
    assert one == (await client.get(f"/v1/backups/{done['id']}")).json()
    for backup in (done, waits):
        assert (await client.delete(f"/v1/backups/{backup['id']}")).status_code == 204
        assert problem(await client.get(f"/v1/backups/{backup['id']}")) == (404, "backup_not_found")
        assert problem(await client.delete(f"/v1/backups/{backup['id']}")) == (404, "backup_not_found")
    assert (await client.get(f"/v1/jobs/{waits['job_id']}")).json()["state"] == "cancelled"
    assert await service.ground.blobs.size(client.headers["x-test-tenant"], f"backup-{done['id']}") is None


async def test_the_answer_leads_to_the_job_and_the_job_to_the_backup(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow()
    answer = await client.post("/v1/backups", json={})
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['job_id']}"
    await drain(runner(service).run, service.ground.database, limit=1)
    job = (await client.get(answer.headers["location"])).json()
    assert (job["kind"], job["state"]) == ("backup.create", "completed")
    backup = (await client.get(f"/v1/backups/{answer.json()['id']}")).json()
    manifest = backup["manifest"]
    assert job["report"] == {
        "backup_id": backup["id"], "rows": manifest["rows"], "bytes": manifest["bytes"],
        "total_sha256": manifest["total_sha256"],
    }  # fmt: skip


@pytest.mark.parametrize("scopes", ["backups:read", "workflows:write"])
async def test_to_make_one_takes_the_scope(client: httpx.AsyncClient, scopes: str) -> None:
    key = (await client.post("/v1/api-keys", json={"name": "k", "scopes": [scopes]})).json()["key"]
    headers = {"authorization": f"Bearer {key}"}
    assert problem(await client.post("/v1/backups", json={}, headers=headers)) == (403, "forbidden")
    listed = await client.get("/v1/backups", headers=headers)
    assert listed.status_code == (200 if scopes == "backups:read" else 403)


async def test_a_null_of_json_is_told_from_none(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    one, other = (await make.version())["id"], (await make.version())["id"]
    async with service.ground.database.writing() as transaction:
        await transaction.connection.execute("UPDATE versions SET knowledge = 'null' WHERE id = $1", one)
    file = await file_of(client, await made(service, client))
    assert {row["id"]: row["knowledge"] for row in file.rows("versions")} == {one: "null", other: None}
