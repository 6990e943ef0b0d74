"""A replay is declared, and shows what the first answer showed."""

from __future__ import annotations

from typing import Any

import httpx

from tests.conftest import Make


async def test_a_replay_in_a_transaction_shows_the_payloads_that_include_names(
    client: httpx.AsyncClient, make: Make
) -> None:
    path = f"/v1/workflows/{(await make.workflow())['id']}/versions?include=dsl"
    answers = [
        await client.post(path, json={"dsl": [1], "operation": "init"}, headers={"idempotency-key": "k"})
        for _ in range(2)
    ]
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert answers[1].json()["dsl"] == [1]


async def test_every_create_declares_its_replay(service: Any) -> None:
    operations = [
        (path, operation["responses"])
        for path, item in service.openapi()["paths"].items()
        for operation in item.values()
    ]
    creates = {path for path, responses in operations if "201" in responses}
    assert creates - {path for path, responses in operations if {"200", "201"} <= responses.keys()} == {"/v1/api-keys"}


async def test_a_null_is_a_payload_where_one_is_required(client: httpx.AsyncClient, make: Make) -> None:
    path = f"/v1/workflows/{(await make.workflow())['id']}/versions"
    made = await client.post(path, json={"dsl": None, "operation": "init"})
    assert made.status_code == 201, made.text
    assert (await client.get(f"/v1/versions/{made.json()['id']}/dsl")).content == b"null"
    assert (await client.post(path, json={"operation": "init"})).status_code == 422
