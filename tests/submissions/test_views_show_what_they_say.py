"""The list of submissions: each view, alone and with filters, by sequence and page by page."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem
from tests.submissions.queue import PATH, rows, tenant

CLAIM = {"attempt_id": "t", "owner_id": "w", "lease_seconds": 600}


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


@pytest.fixture(autouse=True)
async def queue(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    """Heads that run, one of them with a lapsed lease; one that is not ready; one that waits for its time."""
    for name, session, more in (
        ("settled", "one", {}),
        ("running", "one", {}),
        ("behind", "one", {"agent": "b"}),
        ("lapsed", "two", {}),
        ("unready", "three", {"ready": False}),
        ("ready behind it", "three", {}),
        ("later", "four", {"not_before": "2999-01-01T00:00:00Z"}),
        ("next", "five", {"agent": "b", "priority": -1}),
        ("first", "six", {"priority": 1}),
    ):
        await make.submission(id=name, session_key=session, **more)
    for name in ("settled", "running", "lapsed"):
        assert (await client.post(f"{PATH}/{name}/claim", json=CLAIM)).status_code == 200
        if name == "settled":
            assert (await client.post(f"{PATH}/{name}/complete", json={"attempt_id": "t"})).status_code == 200
    await rows(
        service,
        "UPDATE submissions SET lease_lapses_at = now() - interval '1 second'"
        " WHERE tenant_id = :tenant_id AND id = 'lapsed'",
        tenant_id=tenant(client),
    )


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"view": "runnable"}, ["next", "first"]),
        ({"view": "unready"}, ["unready"]),
        ({"view": "running"}, ["running", "lapsed"]),
        ({"view": "expired"}, ["lapsed"]),
        (
            {"view": "unsettled"},
            ["running", "behind", "lapsed", "unready", "ready behind it", "later", "next", "first"],
        ),
        ({"status": "settled"}, ["settled"]),
        ({"status": ["settled", "running"]}, ["settled", "running", "lapsed"]),
        ({"status": "running", "order": "desc"}, ["lapsed", "running"]),
        ({"session_key": "one"}, ["settled", "running", "behind"]),
        ({"session_key": "one", "view": "unsettled", "agent": "b"}, ["behind"]),
        ({"view": "runnable", "agent": "b"}, ["next"]),
        ({"view": "runnable", "status": "running"}, []),
        ({"session_key": "nobody's"}, []),
    ],
)
async def test_a_view_shows_its_submissions_by_sequence(
    client: httpx.AsyncClient, query: dict[str, Any], wanted: list[str]
) -> None:
    assert await listed(client, **query) == wanted
    paged: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = (await client.get(PATH, params={**query, "limit": 1, "count": "exact", **cursor})).json()
        assert answer["total"] == len(wanted)
        paged += [item["id"] for item in answer["items"]]
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert paged == wanted


async def test_inputs_are_shown_where_they_are_asked_for(client: httpx.AsyncClient) -> None:
    plain, asked = [
        (await client.get(PATH, params={"view": "runnable", **more})).json()["items"]
        for more in ({}, {"include": "input"})
    ]
    assert ["input" in item for item in plain] == [False, False]
    assert [{**item, "input": {"n": 1}} for item in plain] == asked


async def test_a_view_or_status_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    for query in ({"view": "all"}, {"status": "done"}, {"sort": "priority"}, {"session_key": ""}, {"include": "error"}):
        assert problem(await client.get(PATH, params=query)) == (422, "invalid_input"), query


async def test_what_is_open_is_told_apart_from_what_is_settled(
    client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    assert (await client.get(f"{PATH}/unsettled")).json() == {"unsettled": True}
    assert (await other.get(f"{PATH}/unsettled")).json() == {"unsettled": False}
