"""Verifying reads the whole file: it is right, or it is said what is not; a flipped byte is found wherever it is."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pyrage
import pytest

from app.background.runner import drain
from app.backups.store import object_of
from app.http.service import Service
from app.settings import SigningSettings
from app.signing import new_seed, public_key_of
from tests.backups.making import runner
from tests.conftest import Make

SEED = new_seed()
SIGNING = SigningSettings(key=SEED)  # type: ignore[arg-type]


async def made(service: Service, client: httpx.AsyncClient, **body: Any) -> str:
    """The id of a signed backup."""
    asked = await client.post("/v1/backups", json=body)
    assert asked.status_code == 202, asked.text
    await drain(runner(service, SIGNING).run, service.ground.database, limit=1)
    return str(asked.json()["id"])


async def verified(service: Service, client: httpx.AsyncClient, backup_id: str) -> dict[str, Any]:
    """The job that verified it."""
    asked = await client.post(f"/v1/backups/{backup_id}/verify")
    assert asked.status_code == 202, asked.text
    await drain(runner(service, SIGNING).run, service.ground.database, limit=1)
    return dict((await client.get(asked.headers["location"])).json())


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_backup_that_is_as_it_was_made_is_right(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.version()
    backup_id = await made(service, client)
    report = (await verified(service, client, backup_id))["report"]

    assert report["valid"] is True
    assert {check["name"]: check["passed"] for check in report["checks"]} == dict.fromkeys(
        ("file", "frames", "lines", "sections", "rows", "counts", "digests", "manifest", "seal", "signature"), True
    )
    assert public_key_of(SEED) in report["checks"][-1]["message"]
    assert (await client.get(f"/v1/backups/{backup_id}")).json()["verified_at"] is not None


async def test_a_flipped_byte_is_found_wherever_it_is(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.version()
    backup_id, chance = await made(service, client), random.Random(11)
    tenant_id, blobs, name = client.headers["x-test-tenant"], service.ground.blobs, object_of(backup_id)
    content = b"".join([part async for part in blobs.open(tenant_id, name, 0, await blobs.size(tenant_id, name) or 0)])
    places = [0, len(content) - 1, len(content) - 40, *(chance.randrange(len(content)) for _ in range(5))]
    for damaged in (*(_flipped(content, place) for place in places), content[:-1], content + b"x", b""):
        await blobs.put(tenant_id, name, once(damaged))
        report = (await verified(service, client, backup_id))["report"]
        assert report["valid"] is False, report
        assert [check for check in report["checks"] if check["passed"] is False]
    assert (await client.get(f"/v1/backups/{backup_id}")).json()["verified_at"] is None
    restore = await client.post("/v1/backups/restore", params={"backup_id": backup_id})
    await drain(runner(service).run, service.ground.database, limit=1)
    assert (await client.get(restore.headers["location"])).json()["error"]["code"] == "backup_damaged"


def _flipped(content: bytes, place: int) -> bytes:
    damaged = bytearray(content)
    damaged[place] ^= 0x04
    return bytes(damaged)


async def test_the_whole_file_of_another_backup_is_not_that_of_this_one(
    service: Service, client: httpx.AsyncClient
) -> None:
    sealed = {"recipients": [str(pyrage.x25519.Identity.generate().to_public())]}
    tenant_id, blobs = client.headers["x-test-tenant"], service.ground.blobs
    for failed, body in ({"file", "manifest"}, {}), ({"file"}, sealed):
        backup_id, other_id = await made(service, client, **body), await made(service, client, **body)
        other = (await client.get(f"/v1/backups/{other_id}/content")).content
        await blobs.put(tenant_id, object_of(backup_id), once(other))
        report = (await verified(service, client, backup_id))["report"]
        assert report["valid"] is False
        assert {check["name"] for check in report["checks"] if check["passed"] is False} == failed


async def test_of_an_encrypted_backup_the_digest_is_looked_at(service: Service, client: httpx.AsyncClient) -> None:
    identity = pyrage.x25519.Identity.generate()
    backup_id = await made(service, client, recipients=[str(identity.to_public())])
    report = (await verified(service, client, backup_id))["report"]

    assert report["valid"] is True
    assert [(check["name"], check["passed"]) for check in report["checks"]] == [("file", True), ("content", None)]
    refused = await client.post("/v1/backups/restore", params={"backup_id": backup_id})
    assert (refused.status_code, refused.json()["code"]) == (409, "backup_encrypted")
    content = (await client.get(f"/v1/backups/{backup_id}/content")).content
    sent = await client.post("/v1/backups/restore", content=content)
    opened = await client.post("/v1/backups/restore", content=pyrage.decrypt(content, [identity]))
    await drain(runner(service).run, service.ground.database, limit=1)
    assert (await client.get(sent.headers["location"])).json()["error"]["code"] == "backup_encrypted"
    assert (await client.get(opened.headers["location"])).json()["state"] == "completed"


@pytest.mark.parametrize("gone", ["verify", "restore"])
async def test_a_file_that_is_gone_is_said(service: Service, client: httpx.AsyncClient, gone: str) -> None:
    backup_id = await made(service, client)
    await service.ground.blobs.delete(client.headers["x-test-tenant"], object_of(backup_id))
    if gone == "verify":
        job = await verified(service, client, backup_id)
    else:
        restore = await client.post("/v1/backups/restore", params={"backup_id": backup_id})
        await drain(runner(service).run, service.ground.database, limit=1)
        job = (await client.get(restore.headers["location"])).json()
    assert (job["state"], job["error"]["code"]) == ("failed", "backup_missing")


async def test_one_of_this_tenants_own_is_restored_by_its_id(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    workflow = await make.workflow()
    backup_id = await made(service, client)
    assert (await client.delete(f"/v1/workflows/{workflow['id']}")).status_code == 204
    restore = await client.post("/v1/backups/restore", params={"backup_id": backup_id})
    await drain(runner(service).run, service.ground.database, limit=1)
    job = (await client.get(restore.headers["location"])).json()
    assert job["report"]["sections"]["workflows"]["created"] == 1
    assert (await client.get(f"/v1/workflows/{workflow['id']}")).json() == workflow
