"""`PUT /v1/generations/{id}/members` with what is there already answers it, and moves neither ETag nor events."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make

PATH = "/v1/generations/g/members"
MEMBERS: list[dict[str, Any]] = [
    {"version_id": "a", "rank": 1, "fitness": 0.1},
    {"version_id": "b", "rank": 2, "fitness": 0.0},
    {"version_id": "B"},
]


@pytest.fixture(autouse=True)
async def generation(make: Make) -> None:
    await make.workflow(id="w")
    for name in ("a", "b", "B"):
        await make.version("w", id=name, dsl={"of": name})
    await make.created("/v1/evolution-runs", id="r")
    await make.created("/v1/evolution-runs/r/generations", id="g")


async def put(client: httpx.AsyncClient, items: list[dict[str, Any]]) -> tuple[bytes, str]:
    """The answer and its ETag."""
    answer = await client.put(PATH, json={"items": items})
    assert answer.status_code == 200, answer.text
    found = await client.get(PATH)
    assert (found.content, found.headers["etag"]) == (answer.content, answer.headers["etag"])
    return answer.content, answer.headers["etag"]


async def updates(client: httpx.AsyncClient, service: Service) -> int:
    """How many events tell of a change of the generation."""
    await drain(sequencer(lambda _waited: None), service.ground.database)
    return len((await client.get("/v1/events?type=generation.updated")).json()["items"])


async def test_the_same_members_move_neither_etag_nor_events(client: httpx.AsyncClient, service: Service) -> None:
    first = await put(client, MEMBERS)
    assert first[1] == '"2"'
    assert await put(client, MEMBERS[::-1]) == first
    assert await updates(client, service) == 1
    stale = await client.put(PATH, json={"items": MEMBERS}, headers={"if-match": '"1"'})
    assert stale.status_code == 412
    empty = await put(client, [])
    assert await put(client, []) == empty
    assert (empty[1], await updates(client, service)) == ('"3"', 2)


@pytest.mark.parametrize(
    "items",
    [
        MEMBERS[:2],
        [*MEMBERS[:2], {"version_id": "B", "rank": 0}],
        [*MEMBERS[:2], {"version_id": "B", "fitness": 0}],
        [MEMBERS[0], {"version_id": "b", "rank": 2, "fitness": -0.0}, MEMBERS[2]],
        [{"version_id": "a", "rank": 1, "fitness": 0.10000000000000002}, *MEMBERS[1:]],
    ],
    ids=["one less", "a rank", "a score", "a sign", "the last digit"],
)
async def test_whatever_is_different_is_a_change(
    client: httpx.AsyncClient, service: Service, items: list[dict[str, Any]]
) -> None:
    before = await put(client, MEMBERS)
    after = await put(client, items)
    assert (after[0] != before[0], after[1], await updates(client, service)) == (True, '"3"', 2)


async def test_one_more_member_is_a_change(client: httpx.AsyncClient, service: Service) -> None:
    await put(client, MEMBERS[1:])
    assert ((await put(client, MEMBERS))[1], await updates(client, service)) == ('"3"', 2)
