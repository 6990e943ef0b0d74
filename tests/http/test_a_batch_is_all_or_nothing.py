"""Batches: one transaction, the first failure is the answer."""

from __future__ import annotations

import httpx

from tests.conftest import Make


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
        ({"method": "TRACE", "path": "/v1/workflows"}, 422),
    ):
        answer = await client.post("/v1/batch", json={"operations": [operation]})
        assert answer.status_code == status, answer.text


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
