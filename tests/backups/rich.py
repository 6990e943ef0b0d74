"""A tenant that has something in every section of a backup."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import asyncpg
import httpx

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from app.settings import SigningSettings
from tests.backups.making import made, runner
from tests.contract.script import arrange, attached

# Exact texts, each written in a way of its own.
PAYLOADS = (
    '{"b":1.0, "a":[1e400,12345678901234567890.123456789012345]}',
    '"\\u0000\\ud800\\\\ \\" \\/ \\t"',
    '{"é":"Ω≈ç√∫", "x" : "\\u2028"}',
    "null",
    "-0.0",
)
LARGE = bytes(range(256)) * 12_000  # three parts


async def enrich(service: Service, client: httpx.AsyncClient) -> None:
    """Make something of everything, and what is hard to copy."""
    tenant_id, url = client.headers["x-test-tenant"], service.ground.database.url
    await arrange(client, tenant_id, url)
    for number, payload in enumerate(PAYLOADS):
        body = f'{{"id":"exact {number}","role":"r","payload":{payload}}}'
        await _done(client.post("/v1/invocations/i/messages", content=body, headers=JSON))
        await _done(client.put(f"/v1/documents/col/exact%20{number}", content=payload, headers=JSON))
    body = f'{{"id":"exact","operation":"init","dsl":{PAYLOADS[0]}}}'
    await _done(client.post("/v1/workflows/w/versions", content=body, headers=JSON))
    await _done(client.post("/v1/artifacts", content=LARGE))
    await _done(client.post("/v1/artifacts", content=b""))
    await _done(client.put("/v1/invocations/i/contexts/workflow/large", content=LARGE))
    await _done(client.put(f"/v1/attachments{attached('p', 'large', LARGE)}", content=LARGE))
    await _done(client.put(f"/v1/attachments{attached('p', 'empty', b'')}", content=b""))
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "INSERT INTO webhook_attempts (tenant_id, delivery_id, number, duration_ms, status_code)"
            " SELECT tenant_id, id, 1, 5, 200 FROM webhook_deliveries WHERE tenant_id = $1",
            tenant_id,
        )
        await connection.execute(
            "INSERT INTO submission_receipts (tenant_id, submission_id, accepted_at) VALUES ($1, 'gone', now())",
            tenant_id,
        )
        await connection.execute(
            "INSERT INTO retention_rules (tenant_id, kind, max_age_days) VALUES ($1, 'messages', 30)"
            " ON CONFLICT DO NOTHING",
            tenant_id,
        )
        await connection.execute(
            "INSERT INTO retention_policies (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", tenant_id
        )
    finally:
        await connection.close()
    await drain(sequencer(lambda _waited: None), service.ground.database, limit=1000)


JSON = {"content-type": "application/json"}


async def _done(answer: Any) -> None:
    found = await answer
    assert found.status_code in (200, 201, 202), found.text


async def exported(service: Service, client: httpx.AsyncClient, **body: Any) -> bytes:
    """The file of a backup made now."""
    backup = await made(service, client, **body)
    content = (await client.get(f"/v1/backups/{backup['id']}/content")).content
    assert hashlib.sha256(content).hexdigest() == backup["digest"]
    return content


async def restored(
    service: Service,
    client: httpx.AsyncClient,
    file: bytes,
    mode: str = "merge",
    on_conflict: str = "fail",
    *,
    dry_run: bool = False,
    **signing: Any,
) -> dict[str, Any]:
    """The job of a restore that has ended."""
    params = {"mode": mode, "on_conflict": on_conflict, "dry_run": dry_run}
    answer = await client.post("/v1/backups/restore", params=params, content=file)
    assert answer.status_code == 202, answer.text
    await drain(runner(service, SigningSettings(**signing)).run, service.ground.database, limit=1)
    return (await client.get(answer.headers["location"])).json()


def sections_of(job: dict[str, Any]) -> dict[str, Any]:
    """What became of each section; the job has completed."""
    assert job["state"] == "completed", json.dumps(job, indent=1)
    return dict(job["report"]["sections"])
