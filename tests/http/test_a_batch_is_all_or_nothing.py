"""Batches: one transaction, the first failure is the answer."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from app.db.sql import Statement
from tests.conftest import Make, new_tenant, running, settings_for
from tests.payloads import codes


async def test_all_operations_happen_and_answer_in_order(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    content = (
        b'{"operations":[{"method":"PUT","path":"/v1/workflows/w","body":{"name":"n"}},'
        b'{"method":"POST","path":"/v1/invocations","body":{"id":"i","version_id":"%s","input":{"b":1.0,"a":1e400}}},'
        b'{"method":"GET","path":"/v1/invocations/i?include=input"}]}' % version.encode()
    )
    answer = await client.post("/v1/batch", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert b'"input":{"b":1.0,"a":1e400}' in answer.content
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201, 201, 200]
    assert results[0]["headers"]["ETag"] == '"1"'


async def test_the_first_failure_is_the_answer_and_nothing_was_done(client: httpx.AsyncClient) -> None:
    operations = [
        {"method": "PUT", "path": "/v1/workflows/w", "body": {}},
        {"method": "POST", "path": "/v1/invocations", "body": {"version_id": "missing"}},
    ]
    answer = await client.post("/v1/batch", json={"operations": operations})
    assert (answer.status_code, answer.json()["code"], answer.json()["index"]) == (404, "version_not_found", 1)
    assert (await client.get("/v1/workflows/w")).status_code == 404


async def test_what_cannot_run_inside_is_refused(client: httpx.AsyncClient) -> None:
    for operation, status in (
        ({"method": "POST", "path": "/v1/batch", "body": {"operations": []}}, 422),
        ({"method": "GET", "path": "/v1/workflows", "headers": {"Idempotency-Key": "k"}}, 422),
        ({"method": "GET", "path": "/v1/nothing"}, 404),
        ({"method": "GET", "path": "/healthz"}, 422),
        ({"method": "GET", "path": "/v1/capabilities"}, 422),
        ({"method": "TRACE", "path": "/v1/workflows"}, 422),
    ):
        answer = await client.post("/v1/batch", json={"operations": [operation]})
        assert answer.status_code == status, answer.text
    inside = {"method": "GET", "path": "/v1/capabilities"}
    told = (await client.post("/v1/batch", json={"operations": [inside]})).json()["detail"]
    assert told.startswith("Operation 0 cannot run inside a batch: streams, raw bytes, waits,")


async def test_a_batch_of_reads_sees_one_snapshot(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    reads = [{"method": "GET", "path": "/v1/workflows/w"}, {"method": "GET", "path": "/v1/workflows?count=exact"}]
    answer = await client.post("/v1/batch", json={"operations": reads}, headers={"Idempotency-Key": "r"})
    assert [result["status"] for result in answer.json()["results"]] == [200, 200]
    assert answer.json()["results"][1]["body"]["total"] == 1


async def test_a_batch_under_one_key_happens_once(client: httpx.AsyncClient) -> None:
    body = {"operations": [{"method": "POST", "path": "/v1/workflows", "body": {"name": "n"}}]}
    first = await client.post("/v1/batch", json=body, headers={"Idempotency-Key": "b"})
    second = await client.post("/v1/batch", json=body, headers={"Idempotency-Key": "b"})
    assert first.content == second.content
    assert second.headers["idempotency-replayed"] == "true"
    assert len((await client.get("/v1/workflows")).json()["items"]) == 1


async def test_a_write_shows_payloads_when_asked_and_a_replay_reads_them_again(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    body = b'{"id":"i","version_id":"%s","input":{"b":1.0, "a":[1e400,"\\ud83d"]}}' % version.encode()
    headers = {"content-type": "application/json", "Idempotency-Key": "k"}
    plain = await client.post("/v1/invocations", content=body, headers={"content-type": "application/json"})
    shown = await client.post("/v1/invocations?include=input,output", content=body, headers=headers)
    again = await client.post("/v1/invocations?include=input,output", content=body, headers=headers)
    assert "input" not in plain.json()
    assert b'"input":{"b":1.0, "a":[1e400,"\\ud83d"]},"output":null}' in shown.content
    assert again.content == shown.content
    assert again.headers["idempotency-replayed"] == "true"
    wrong = await client.post("/v1/invocations?include=nothing", content=body, headers=headers)
    assert wrong.status_code == 422


async def kept_bodies(client: httpx.AsyncClient, service: Any) -> list[bytes]:
    rows = await service.ground.database.rows(
        Statement("SELECT CAST(body AS text) AS body FROM idempotency_keys WHERE tenant_id = :tenant_id"),
        tenant_id=client.headers["x-test-tenant"],
    )
    return [row["body"].encode() for row in rows]


async def test_a_secret_made_in_a_batch_is_shown_once_and_not_kept(client: httpx.AsyncClient, service: Any) -> None:
    made = {"method": "POST", "path": "/v1/api-keys", "body": {"id": "k", "name": "k", "scopes": ["*:read"]}}
    turned = {"method": "POST", "path": "/v1/api-keys/k/rotate"}
    answers = [
        await client.post("/v1/batch", json={"operations": [made, turned]}, headers={"Idempotency-Key": "s"})
        for _ in range(2)
    ]
    first, again = ([result["body"] for result in answer.json()["results"]] for answer in answers)
    assert all(body["key"].startswith("cairn_") for body in first)
    assert again == [{**body, "key": None} for body in first]
    (kept,) = await kept_bodies(client, service)
    assert b"cairn_" + first[0]["key"][6:].encode() not in kept
    assert first[1]["key"].encode() not in kept


async def test_a_replay_of_a_batch_reads_payloads_again_and_keeps_no_copy(
    client: httpx.AsyncClient, make: Make, service: Any
) -> None:
    payload = b'{"b":1.0, "a":[1e400,"\\ud83d"]}'
    body = (
        b'{"operations":[{"method":"POST","path":"/v1/invocations?include=input","body":{"id":"i","version_id":"%s",'
        b'"input":%s}},{"method":"GET","path":"/v1/invocations/i"},{"method":"POST","path":"/v1/invocations/i/end",'
        b'"body":{"status":"completed"}}]}' % ((await make.version())["id"].encode(), payload)
    )
    headers = {"content-type": "application/json", "Idempotency-Key": "p"}
    first = await client.post("/v1/batch", content=body, headers=headers)
    again = await client.post("/v1/batch", content=body, headers=headers)
    assert (first.status_code, first.content.count(payload)) == (200, 2), first.text
    assert again.content.count(payload) == 2
    assert again.headers["idempotency-replayed"] == "true"
    written, read, ended = again.json()["results"]
    assert [written, ended] == [first.json()["results"][0], first.json()["results"][2]]
    assert (read["body"]["status"], read["headers"]["ETag"]) == ("completed", '"2"')
    (kept,) = await kept_bodies(client, service)
    assert payload not in kept
    await client.delete("/v1/invocations/i")
    gone = await client.post("/v1/batch", content=body, headers=headers)
    assert gone.json()["results"][1] == {"status": 404, "headers": {}, "body": None}


async def test_b15_batches_of_reads_hold_one_connection_each(
    clone: Callable[[], Awaitable[str]],
) -> None:
    settings = settings_for(await clone(), database={"pool_max": 2, "acquire_seconds": 5})
    async with running(settings) as service, await new_tenant(service) as client:
        body = {"operations": [{"method": "GET", "path": "/v1/workflows?count=exact"}] * 3}
        for headers in ({}, {"Idempotency-Key": "same"}):
            answers = await gather(*(client.post("/v1/batch", json=body, headers=headers) for _ in range(12)))
            assert codes(answers) == [200] * 12, {answer.text for answer in answers}


async def test_a_replay_of_long_work_names_its_job(client: httpx.AsyncClient, make: Make) -> None:
    await make.version((await make.workflow(id="w"))["id"])
    answers = [await client.delete("/v1/workflows/w?cascade=true", headers={"Idempotency-Key": "d"}) for _ in range(2)]
    assert codes(answers) == [202, 202]
    job = f"/v1/jobs/{answers[0].json()['id']}"
    assert [answer.headers["location"] for answer in answers] == [job, job]
    assert (await client.post(f"{job}/cancel")).json()["state"] == "cancelled"
