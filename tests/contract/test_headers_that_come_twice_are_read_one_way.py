"""A header that names one thing is given once; one that is a list may come in several lines, which are one list."""

from __future__ import annotations

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import problem


@pytest.mark.parametrize("name", ["authorization", "x-tenant-id", "idempotency-key", "submission-attempt", "lease"])
async def test_a_header_that_names_one_thing_is_refused_when_it_comes_twice(
    client: httpx.AsyncClient, name: str
) -> None:
    own = {"authorization": client.headers["authorization"], "x-tenant-id": client.headers["x-test-tenant"]}
    given = own.get(name, "a;b")
    twice = [(key, value) for key, value in client.headers.items() if key != name] + [(name, given), (name, "other")]
    answer = await client.send(
        httpx.Request("POST", f"{client.base_url}/v1/workflows", headers=twice, json={"id": "w"})
    )
    assert problem(answer) == (400, "malformed_request")
    assert name in answer.json()["detail"]
    assert (await client.get("/v1/workflows/w")).status_code == 404


async def test_the_lines_of_if_match_are_one_list(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    for tags, status in ((('"9"', '"1"'), 200), (('"8"', '"9"'), 412), (("",), 412)):
        headers = [("if-match", tag) for tag in tags]
        assert (await client.patch("/v1/workflows/w", json={"name": "n"}, headers=headers)).status_code == status
