"""The registry: servers, their versions and tools, and what a release freezes."""

from __future__ import annotations

from asyncio import create_task, gather
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem
from tests.waiting import held_up

SERVER = "/v1/mcp/servers/m"
VERSION = f"{SERVER}/versions/v"
TOOLS = f"{VERSION}/tools"


@pytest.fixture(autouse=True)
async def version(make: Make) -> dict[str, Any]:
    await make.created("/v1/mcp/servers", id="m", publisher_id="p", slug="search", display_name="Web search")
    return await make.created(f"{SERVER}/versions", id="v", version="1.0", capabilities={"tools": {}})


async def test_a_slug_is_its_publishers_own(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/mcp/servers", id="other", publisher_id="q", slug="search", display_name="n")
    fields = {"id": "m", "publisher_id": "p", "slug": "search", "display_name": "Web search"}
    assert (await client.post("/v1/mcp/servers", json=fields)).status_code == 200
    again = {**fields, "visibility": "public"}
    assert problem(await client.post("/v1/mcp/servers", json=again)) == (409, "mcp_server_conflict")
    taken = {"publisher_id": "p", "slug": "search", "display_name": "n"}
    assert problem(await client.post("/v1/mcp/servers", json=taken)) == (409, "mcp_slug_taken")
    await make.created("/v1/mcp/servers", id="third", publisher_id="p", slug="third", display_name="n")
    refused = await client.patch("/v1/mcp/servers/third", json={"slug": "search"})
    assert problem(refused) == (409, "mcp_slug_taken")
    for slug in ("", "Search", "a b", "-a"):
        assert (await client.patch("/v1/mcp/servers/third", json={"slug": slug})).status_code == 422
    shown = await client.patch("/v1/mcp/servers/third", json={"visibility": "public", "repo_url": "https://x"})
    assert (shown.json()["visibility"], shown.json()["repo_url"]) == ("public", "https://x")
    for query, wanted in (
        ("publisher_id=p", ["m", "third"]),
        ("q=WEB", ["m"]),
        ("visibility=public", ["third"]),
        ("slug=search&publisher_id=q", ["other"]),
    ):
        listed = await client.get(f"/v1/mcp/servers?order=asc&{query}")
        assert [item["id"] for item in listed.json()["items"]] == wanted


async def test_a_version_is_its_servers_own(client: httpx.AsyncClient, version: dict[str, Any]) -> None:
    assert (version["status"], version["listed"], version["released_at"]) == ("draft", True, None)
    for body in ({"version": "1.0"}, {"id": "v", "version": "2.0"}):
        assert problem(await client.post(f"{SERVER}/versions", json=body)) == (409, "mcp_version_conflict")
    absent = await client.post("/v1/mcp/servers/absent/versions", json={"version": "1"})
    assert problem(absent) == (404, "mcp_server_not_found")
    assert problem(await client.get(f"{SERVER}/versions/absent")) == (404, "mcp_version_not_found")
    assert problem(await client.get(f"{SERVER}/versions/absent/tools")) == (404, "mcp_version_not_found")
    assert problem(await client.get("/v1/mcp/servers/absent/versions")) == (404, "mcp_server_not_found")
    assert problem(await client.get("/v1/mcp/servers/absent")) == (404, "mcp_server_not_found")


async def test_a_release_freezes_all_but_what_is_said_of_it(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(TOOLS, name="t", input_schema={"a": 1})
    for status in ("in_review", "rejected", "draft", "testflight", "released"):
        changed = await client.patch(VERSION, json={"status": status})
        assert (changed.status_code, changed.json()["status"]) == (200, status)
    released_at = changed.json()["released_at"]
    assert released_at is not None
    for fields in ({"version": "1.1"}, {"capabilities": {}}, {"listed": False, "manifest_hash": "x"}):
        refused = await client.patch(VERSION, json=fields)
        assert (problem(refused), refused.json()["current_status"]) == ((409, "mcp_version_released"), "released")
        assert refused.json()["frozen_fields"] == sorted(fields.keys() - {"listed"})
    for answer in (
        await client.post(TOOLS, json={"name": "u", "input_schema": {}}),
        await client.post(TOOLS, json={"name": "t", "input_schema": {"a": 2}}),
        await client.delete(f"{TOOLS}/t"),
        await client.delete(VERSION),
    ):
        assert problem(answer) == (409, "mcp_version_released")
    assert (await client.post(TOOLS, json={"name": "t", "input_schema": {"a": 1}})).status_code == 200
    noted = await client.patch(VERSION, json={"listed": False, "release_notes": "Withdrawn.", "status": "yanked"})
    assert (noted.json()["status"], noted.json()["released_at"]) == ("yanked", released_at)
    for status in ("draft", "in_review", "testflight", "rejected"):
        refused = await client.patch(VERSION, json={"status": status})
        assert (problem(refused), refused.json()["current_status"]) == ((409, "mcp_transition_refused"), "yanked")
    back = await client.patch(VERSION, json={"status": "released"})
    assert (back.json()["status"], back.json()["released_at"]) == ("released", released_at)


async def test_what_was_never_released_is_not_yanked(client: httpx.AsyncClient) -> None:
    assert problem(await client.patch(VERSION, json={"status": "yanked"})) == (409, "mcp_transition_refused")
    assert (await client.delete(VERSION)).status_code == 204
    assert (await client.delete(VERSION)).status_code == 404


async def test_tools_are_added_all_or_none(client: httpx.AsyncClient) -> None:
    items = [{"name": name, "input_schema": {"of": name}, "description": name} for name in ("b", "a")]
    made = await client.post(TOOLS, json={"items": items})
    assert (made.status_code, [item["name"] for item in made.json()["items"]]) == (201, ["b", "a"])
    assert [item["name"] for item in (await client.get(TOOLS)).json()["items"]] == ["a", "b"]
    refused = await client.post(
        TOOLS, json={"items": [{"name": "c", "input_schema": {}}, {"name": "a", "input_schema": {}}]}
    )
    assert (problem(refused), refused.json()["names"]) == ((409, "mcp_tool_conflict"), ["a"])
    assert problem(await client.get(f"{TOOLS}/c")) == (404, "mcp_tool_not_found")
    twice = await client.post(TOOLS, json={"items": [items[0], items[0]]})
    assert twice.json()["errors"][0]["pointer"] == "/items/1/name"
    assert (await client.get(f"{TOOLS}/a")).json() == made.json()["items"][1]
    assert (await client.delete(f"{TOOLS}/a")).status_code == 204
    assert problem(await client.delete(f"{TOOLS}/a")) == (404, "mcp_tool_not_found")
    assert problem(await client.post(f"{SERVER}/versions/x/tools", json=items[0])) == (404, "mcp_version_not_found")


async def test_no_tool_slips_into_a_version_that_is_being_released(client: httpx.AsyncClient) -> None:
    answers = await gather(
        client.patch(VERSION, json={"status": "released"}),
        *(client.post(TOOLS, json={"name": f"t{n}", "input_schema": {}}) for n in range(10)),
    )
    added = [answer.json()["name"] for answer in answers[1:] if answer.status_code == 201]
    assert {answer.status_code for answer in answers[1:]} <= {201, 409}
    assert [item["name"] for item in (await client.get(TOOLS)).json()["items"]] == sorted(added)
    assert (await client.post(TOOLS, json={"name": "late", "input_schema": {}})).status_code == 409


async def test_a_server_goes_with_its_versions_unless_somebody_uses_it(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(TOOLS, name="t", input_schema={})
    await make.created("/v1/mcp/configs", id="c", user_id="u", name="n", server_id="m")
    refused = await client.delete(SERVER)
    assert (problem(refused), refused.json()["config_ids"]) == ((409, "mcp_server_in_use"), ["c"])
    await client.delete("/v1/mcp/configs/c")
    assert (await client.delete(SERVER)).status_code == 204
    assert problem(await client.delete(SERVER)) == (404, "mcp_server_not_found")
    assert problem(await client.get(VERSION)) == (404, "mcp_version_not_found")


async def test_releases_are_told_in_events(client: httpx.AsyncClient, service: Service) -> None:
    for status in ("in_review", "released", "released", "yanked", "released"):
        await client.patch(VERSION, json={"status": status})
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events")).json()["items"]
    assert [(event["type"], event["subject_id"], event["subject_parent_id"]) for event in events] == [
        ("mcp_version.released", "v", "m"),
        ("mcp_version.yanked", "v", "m"),
        ("mcp_version.released", "v", "m"),
    ]


async def test_a_server_goes_with_the_tool_that_is_being_added(
    client: httpx.AsyncClient, service: Service, version: dict[str, Any]
) -> None:
    connection = await asyncpg.connect(service.ground.database.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "INSERT INTO mcp_tools (tenant_id, server_id, version_id, name, input_schema, active, digest)"
        " VALUES ($1, 'm', 'v', 't', '{}', true, '')",
        client.headers["x-test-tenant"],
    )
    going = create_task(client.delete(SERVER))
    await held_up(service)
    await transaction.commit()
    await connection.close()
    assert (await going).status_code == 204
    assert problem(await client.get(f"{TOOLS}/t")) == (404, "mcp_version_not_found")
