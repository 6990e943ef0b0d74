"""Opening by format: the stamp that is there, one that is adopted, a fresh one; anything else changes nothing."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.attachments.uploads import put as put_attachment
from tests.payloads import codes, problem

FORMAT = {"name": "format_version", "value": "1"}
ADOPTING = {**FORMAT, "adopt": {"schema_version": ["7", "8"], "generation": ["1"]}}


async def opened(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    """Open the store, with other fields than the usual where they are named."""
    return await client.post("/v1/format-stamps/open", json={**FORMAT, **fields})


async def stamps(client: httpx.AsyncClient) -> dict[str, str]:
    """Every stamp, by name."""
    return {stamp["name"]: stamp["value"] for stamp in (await client.get("/v1/format-stamps")).json()["items"]}


async def stamp(client: httpx.AsyncClient, **values: str) -> None:
    """Put stamps."""
    for name, value in values.items():
        assert (await client.put(f"/v1/format-stamps/{name}", json={"value": value})).status_code == 201


async def test_an_empty_store_is_stamped_once(client: httpx.AsyncClient) -> None:
    made = await opened(client)
    again = await opened(client)
    assert codes([made, again]) == [200, 201]
    assert (made.content, made.headers["etag"]) == (again.content, '"1"')
    assert (await client.get("/v1/format-stamps/format_version")).content == made.content
    assert {name: made.json()[name] for name in FORMAT} == FORMAT


@pytest.mark.parametrize("body", [FORMAT, ADOPTING])
async def test_another_value_is_refused_with_both(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    await stamp(client, format_version="2", schema_version="8")
    refused = await opened(client, **body)
    assert problem(refused) == (409, "format_unsupported")
    facts = {name: refused.json()[name] for name in ("name", "stored_value", "supported_values")}
    assert facts == {"name": "format_version", "stored_value": "2", "supported_values": ["1"]}
    assert await stamps(client) == {"format_version": "2", "schema_version": "8"}


async def test_an_older_stamp_that_is_listed_becomes_this_one(client: httpx.AsyncClient) -> None:
    await stamp(client, schema_version="8", other="x")
    await put_attachment(client, b"data")
    adopted = await opened(client, **ADOPTING)
    assert (adopted.status_code, await stamps(client)) == (201, {"format_version": "1", "other": "x"})
    assert (await opened(client, **ADOPTING)).status_code == 200


async def test_all_older_stamps_that_are_listed_become_one(client: httpx.AsyncClient) -> None:
    await stamp(client, schema_version="7", generation="1")
    assert (await opened(client, **ADOPTING)).status_code == 201
    assert await stamps(client) == {"format_version": "1"}


@pytest.mark.parametrize(
    ("stored", "name", "supported"),
    [
        ({"schema_version": "6"}, "schema_version", ["7", "8"]),
        ({"schema_version": "8", "generation": "2"}, "generation", ["1"]),
    ],
)
async def test_an_older_stamp_with_another_value_is_refused_and_stays(
    client: httpx.AsyncClient, stored: dict[str, str], name: str, supported: list[str]
) -> None:
    await stamp(client, **stored)
    refused = await opened(client, **ADOPTING)
    assert problem(refused) == (409, "format_unsupported")
    facts = [refused.json()[fact] for fact in ("name", "stored_value", "supported_values")]
    assert facts == [name, stored[name], supported]
    assert await stamps(client) == stored


async def test_an_older_stamp_of_which_no_value_is_supported_is_refused(client: httpx.AsyncClient) -> None:
    await stamp(client, schema_version="8")
    assert problem(await opened(client, adopt={"schema_version": []})) == (409, "format_unsupported")
    assert await stamps(client) == {"schema_version": "8"}


async def _attach(client: httpx.AsyncClient) -> None:
    assert (await put_attachment(client, b"data")).status_code == 201


async def _converse(client: httpx.AsyncClient) -> None:
    identity = {"agent_name": "a", "instance_id": "i"}
    assert (await client.put("/v1/conversations", json={"path": "p", "identity": identity})).status_code == 201


async def _submit(client: httpx.AsyncClient) -> None:
    admission = {"id": "s", "session_key": "k", "kind": "direct", "agent": "a", "instance_id": "i", "input": 1,
                 "accepted_at": "2026-01-05T10:00:00Z"}  # fmt: skip
    assert (await client.post("/v1/submissions", json=admission)).status_code == 201


@pytest.mark.parametrize("store_something", [_attach, _converse, _submit])
async def test_data_without_a_stamp_is_not_opened(
    client: httpx.AsyncClient, other: httpx.AsyncClient, store_something: Callable[[httpx.AsyncClient], Awaitable[None]]
) -> None:
    await store_something(client)
    for body in (FORMAT, ADOPTING):
        assert problem(await opened(client, **body)) == (409, "unversioned_store")
    assert await stamps(client) == {}
    assert (await opened(other)).status_code == 201
    await stamp(client, format_version="1")
    assert (await opened(client)).status_code == 200


async def test_of_many_that_open_at_once_one_stamps(client: httpx.AsyncClient) -> None:
    answers = await gather(*(opened(client) for _ in range(12)))
    assert codes(answers) == [200] * 11 + [201]
    assert len({answer.content for answer in answers}) == 1


async def test_of_many_that_adopt_at_once_one_does(client: httpx.AsyncClient) -> None:
    for turn in range(5):
        await client.delete("/v1/format-stamps/format_version")
        await stamp(client, schema_version="8")
        answers = await gather(*(opened(client, **ADOPTING) for _ in range(8)))
        assert (turn, codes(answers)) == (turn, [200] * 7 + [201])
        assert await stamps(client) == {"format_version": "1"}


async def test_of_two_formats_at_once_one_is_the_store_s(client: httpx.AsyncClient) -> None:
    answers = await gather(*(opened(client, value=str(number)) for number in range(6)))
    assert codes(answers) == [201] + [409] * 5
    (made,) = (answer.json() for answer in answers if answer.status_code == 201)
    assert {answer.json()["stored_value"] for answer in answers if answer.status_code == 409} == {made["value"]}


async def test_an_older_stamp_is_never_lost_to_a_stamp_that_comes_between(client: httpx.AsyncClient) -> None:
    for turn in range(10):
        await stamp(client, schema_version="8")
        answers = await gather(
            opened(client, **ADOPTING), client.put("/v1/format-stamps/format_version", json={"value": "2"})
        )
        found = await stamps(client)
        if answers[0].status_code == 409:
            assert (turn, found) == (turn, {"format_version": "2", "schema_version": "8"})
        else:
            assert (turn, found) == (turn, {"format_version": "2"})
        for name in found:
            await client.delete(f"/v1/format-stamps/{name}")


async def test_a_stamp_is_put_and_deleted(client: httpx.AsyncClient) -> None:
    path = "/v1/format-stamps/a%2Fb"
    made = await client.put(path, json={"value": "1"})
    same = await client.put(path, json={"value": "1"})
    changed = await client.put(path, json={"value": "2"})
    assert [answer.status_code for answer in (made, same, changed)] == [201, 200, 200]
    assert [answer.headers["etag"] for answer in (made, same, changed)] == ['"1"', '"1"', '"2"']
    assert (changed.json()["name"], changed.json()["value"]) == ("a/b", "2")
    assert (await client.delete(path)).status_code == 204
    for method in ("GET", "DELETE"):
        assert problem(await client.request(method, path)) == (404, "format_stamp_not_found")
    for tag in ("*", '"1"'):
        refused = await client.put(path, json={"value": "1"}, headers={"if-match": tag})
        assert problem(refused) == (412, "precondition_failed")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "open"}, "/name"),
        ({"name": ""}, "/name"),
        ({"value": ""}, "/value"),
        ({"value": 1}, "/value"),
        ({"adopt": {"a": ["1"] * 65}}, "/adopt/a"),
        ({"adopt": {str(number): [] for number in range(17)}}, "/adopt"),
        ({"adopt": {"a": [1]}}, "/adopt/a/0"),
    ],
)
async def test_what_cannot_be_a_stamp_is_named(client: httpx.AsyncClient, fields: dict[str, Any], pointer: str) -> None:
    refused = await opened(client, **fields)
    assert problem(refused) == (422, "invalid_input")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_a_key_replays_the_opening(client: httpx.AsyncClient) -> None:
    answers = [
        await client.post("/v1/format-stamps/open", json=FORMAT, headers={"idempotency-key": "k"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
