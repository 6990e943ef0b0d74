"""Each user's configurations: one at a time under an ETag, or all of them in one transaction."""

from __future__ import annotations

from asyncio import create_task, gather
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import codes, problem
from tests.waiting import held_up

ALL = "/v1/mcp/users/u/configs"
RUN = {"command": "run"}


@pytest.fixture(autouse=True)
async def server(make: Make) -> dict[str, Any]:
    return await make.created("/v1/mcp/servers", id="m", publisher_id="p", slug="m", display_name="M")


async def test_a_configuration_is_of_a_server_or_has_a_command(client: httpx.AsyncClient) -> None:
    for config in (None, {}, {"url": "x"}):
        refused = await client.post("/v1/mcp/configs", json={"user_id": "u", "name": "n", "config": config})
        assert (problem(refused), refused.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/config")
    absent = await client.post("/v1/mcp/configs", json={"user_id": "u", "name": "n", "server_id": "absent"})
    assert problem(absent) == (404, "mcp_server_not_found")
    made = await client.post("/v1/mcp/configs", json={"id": "c", "user_id": "u", "name": "n", "server_id": "m"})
    assert (made.status_code, made.json()["config"], made.json()["enabled"]) == (201, {}, True)
    refused = await client.patch("/v1/mcp/configs/c", json={"server_id": None})
    assert problem(refused) == (422, "invalid_input")
    own = await client.patch("/v1/mcp/configs/c", json={"server_id": None, "config": RUN})
    assert (own.status_code, own.json()["config"]) == (200, RUN)
    refused = await client.put(ALL, json={"items": [{"name": "x"}]})
    assert problem(refused) == (422, "invalid_input")


async def test_a_configuration_is_bounded_in_size(client: httpx.AsyncClient) -> None:
    for text in ("x" * 70_000, "?-eyJ" * 20_000):
        body = {"user_id": "u", "name": "n", "config": {"command": "c", "note": text}}
        refused = await client.post("/v1/mcp/configs", json=body)
        assert (problem(refused), refused.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/config")


async def test_a_name_is_its_own_among_the_users(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/mcp/configs", id="a", user_id="u", name="a", server_id="m")
    await make.created("/v1/mcp/configs", id="b", user_id="u", name="b", server_id="m")
    await make.created("/v1/mcp/configs", id="other", user_id="v", name="a", server_id="m")
    for answer in (
        await client.post("/v1/mcp/configs", json={"user_id": "u", "name": "a", "server_id": "m"}),
        await client.patch("/v1/mcp/configs/b", json={"name": "a"}),
        await client.put("/v1/mcp/configs/other", json={"user_id": "u", "name": "c", "server_id": "m"}),
    ):
        assert problem(answer) == (409, "mcp_config_conflict")
    for query, wanted in (("user_id=u&sort=name", ["a", "b"]), ("user_id=v", ["other"]), ("has_server=false", [])):
        listed = await client.get(f"/v1/mcp/configs?order=asc&{query}")
        assert [item["id"] for item in listed.json()["items"]] == wanted


async def test_a_set_is_replaced_whole(client: httpx.AsyncClient, make: Make) -> None:
    for name in ("kept", "changed", "removed"):
        await make.created("/v1/mcp/configs", id=name, user_id="u", name=name, config=RUN)
    await make.created("/v1/mcp/configs", id="other", user_id="v", name="kept", config=RUN)
    before = await client.get(ALL)
    kept = await client.get("/v1/mcp/configs/kept")
    items = [
        {"name": "kept", "config": RUN},
        {"name": "changed", "config": {"command": "walk"}, "enabled": False},
        {"name": "added", "server_id": "m"},
    ]
    put = await client.put(ALL, json={"items": items}, headers={"if-match": before.headers["etag"]})
    assert put.status_code == 200, put.text
    assert [(item["name"], item["enabled"]) for item in put.json()["items"]] == [
        ("added", True), ("changed", False), ("kept", True),
    ]  # fmt: skip
    assert put.json()["items"][1]["id"] == "changed"
    after = await client.get("/v1/mcp/configs/kept")
    assert (after.content, after.headers["etag"]) == (kept.content, kept.headers["etag"])
    again = await client.put(ALL, json={"items": items})
    assert (again.content, again.headers["etag"]) == (put.content, put.headers["etag"])
    stale = await client.put(ALL, json={"items": []}, headers={"if-match": before.headers["etag"]})
    assert (problem(stale), stale.json()["current_etag"]) == ((412, "precondition_failed"), put.headers["etag"])
    assert (await client.get("/v1/mcp/configs/other")).status_code == 200
    emptied = await client.put(ALL, json={"items": []})
    assert emptied.json() == {"user_id": "u", "items": []}


async def test_a_set_that_cannot_be_as_a_whole_changes_nothing(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/mcp/configs", id="a", user_id="u", name="a", config=RUN)
    before = await client.get(ALL)
    good = {"name": "new", "config": RUN}
    for last, refusal in (
        ({"name": "x", "server_id": "absent"}, (404, "mcp_server_not_found")),
        ({"name": "new", "config": RUN}, (422, "invalid_input")),
        ({"name": "x"}, (422, "invalid_input")),
    ):
        refused = await client.put(ALL, json={"items": [good, last]})
        assert problem(refused) == refusal
    assert (await client.get(ALL)).content == before.content


async def test_any_change_of_one_moves_the_etag_of_the_set(client: httpx.AsyncClient, make: Make) -> None:
    seen = [(await client.get(ALL)).headers["etag"]]
    await make.created("/v1/mcp/configs", id="a", user_id="u", name="a", config=RUN)
    for method, path, body in (
        ("GET", "/v1/mcp/configs/a", None),
        ("PATCH", "/v1/mcp/configs/a", {"enabled": False}),
        ("PUT", "/v1/mcp/configs/a", {"user_id": "u", "name": "b"}),
        ("DELETE", "/v1/mcp/configs/a", None),
    ):
        seen.append((await client.get(ALL)).headers["etag"])
        assert (await client.request(method, path, json=body)).is_success
    seen.append((await client.get(ALL)).headers["etag"])
    assert seen == ['"0"', '"1"', '"1"', '"2"', '"3"', '"4"']
    refused = await client.put(ALL, json={"items": []}, headers={"if-match": '"3"'})
    assert problem(refused) == (412, "precondition_failed")


async def test_of_many_who_replace_what_they_read_one_succeeds(client: httpx.AsyncClient) -> None:
    etag = (await client.get(ALL)).headers["etag"]
    bodies = [{"items": [{"name": f"n{n}", "config": RUN}, {"name": "both", "config": RUN}]} for n in range(10)]
    answers = await gather(*(client.put(ALL, json=body, headers={"if-match": etag}) for body in bodies))
    assert codes(answers) == [200] + [412] * 9
    assert len((await client.get(ALL)).json()["items"]) == 2


async def test_a_user_has_a_bounded_number_of_them(client: httpx.AsyncClient) -> None:
    items = [{"name": f"n{n}", "config": RUN} for n in range(1000)]
    assert (await client.put(ALL, json={"items": items})).status_code == 200
    refused = await client.post("/v1/mcp/configs", json={"user_id": "u", "name": "more", "config": RUN})
    assert (problem(refused), refused.json()["limit"]) == ((409, "mcp_configs_full"), 1000)
    assert problem(await client.put(ALL, json={"items": [*items, {"name": "x", "config": RUN}]}))[0] == 422


async def test_what_is_not_there_is_named(client: httpx.AsyncClient) -> None:
    one = "/v1/mcp/configs/absent"
    for answer in (await client.get(one), await client.patch(one, json={}), await client.delete(one)):
        assert problem(answer) == (404, "mcp_config_not_found")
    body = {"user_id": "u", "name": "n", "config": RUN}
    assert problem(await client.put(one, json=body, headers={"if-match": "*"})) == (412, "precondition_failed")
    assert (await client.put(one, json=body)).status_code == 201
    assert (await client.put(one, json=body)).status_code == 200


async def test_no_user_has_more_configurations_than_there_may_be(client: httpx.AsyncClient, service: Service) -> None:
    items = [{"name": f"n{number}", "config": RUN} for number in range(999)]
    assert (await client.put(ALL, json={"items": items})).status_code == 200
    connection = await asyncpg.connect(service.ground.database.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "SELECT FROM mcp_config_sets WHERE tenant_id = $1 FOR UPDATE", client.headers["x-test-tenant"]
    )
    adding = [
        create_task(client.post("/v1/mcp/configs", json={"user_id": "u", "name": f"x{number}", "config": RUN}))
        for number in range(3)
    ]
    await held_up(service, len(adding))
    await transaction.commit()
    await connection.close()
    assert codes(await gather(*adding)) == [201, 409, 409]
    assert len((await client.get(ALL)).json()["items"]) == 1000
