"""What several inputs or records weigh together is bounded: who asks for many gets as many as 16 MiB hold, and one."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for
from tests.submissions.queue import NEXT, PATH

# Three of them are over 16 MiB, two are not.
SIZE = 6 * 1024 * 1024
TEXTS = {
    "packed well": b'"' + b"x" * SIZE + b'"',
    "not packed": b'"' + base64.b64encode(os.urandom(SIZE * 3 // 4)) + b'"',
}
FIELDS = b'"kind":"direct","agent":"a","instance_id":"i"'


@pytest.fixture(scope="module")
async def service(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A service on a database of these tests alone, which are large."""
    async with running(settings_for(await kept_clone())) as started:
        yield started


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with await new_tenant(service) as made:
        yield made


async def admit(client: httpx.AsyncClient, number: int, session: str, text: bytes) -> None:
    body = b'{"id":"n%d","session_key":"%b",%b,"input":%b}' % (number, session.encode(), FIELDS, text)
    answer = await client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 201, answer.text[:500]


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text[:500]
    return [item.get("id") or item["submission_id"] for item in answer.json()["items"]]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_claim_next_gives_what_fits_and_the_rest_to_the_next_call(client: httpx.AsyncClient, text: bytes) -> None:
    for number in range(5):
        await admit(client, number, f"s{number}", text)
    body = {"owner_id": "w", "limit": 100}
    first = await client.post(NEXT, json=body, headers={"Idempotency-Key": "k"})
    assert names(first) == ["n0", "n1", "n2"]
    assert (await client.post(NEXT, json=body, headers={"Idempotency-Key": "k"})).content == first.content
    assert names(await client.post(NEXT, json=body)) == ["n3", "n4"]
    assert names(await client.post(NEXT, json=body)) == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_what_joins_in_one_call_is_what_fits(client: httpx.AsyncClient, text: bytes) -> None:
    for number in range(6):
        await admit(client, number, "s", text)
    (host,) = (await client.post(NEXT, json={"owner_id": "w"})).json()["items"]
    joins = {"attempt_id": host["attempt_id"], "agent": "a"}
    assert names(await client.post(f"{PATH}/n0/joins/claim", json=joins)) == ["n1", "n2", "n3"]
    assert names(await client.post(f"{PATH}/n0/joins/claim", json=joins)) == ["n4", "n5"]
    assert names(await client.post(f"{PATH}/n0/joins/claim", json=joins)) == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_page_of_settlements_ends_where_its_records_are_too_much(
    client: httpx.AsyncClient, text: bytes
) -> None:
    for number in range(4):
        await admit(client, number, f"s{number}", b"1")
        owned = {"attempt_id": "at", "owner_id": "o", "lease_seconds": 60}
        assert (await client.post(f"{PATH}/n{number}/claim", json=owned)).status_code == 200
        record = b'{"id":"r","outcome":"completed","text":%b}' % text
        body = b'{"attempt_id":"at","record_id":"r","record":%b}' % record
        headers = {"content-type": "application/json"}
        answer = await client.post(f"{PATH}/n{number}/settlement/reserve", content=body, headers=headers)
        assert answer.status_code == 200, answer.text[:500]
    page = await client.get("/v1/settlements?limit=1000")
    assert names(page) == ["n0", "n1", "n2"]
    rest = await client.get("/v1/settlements", params={"limit": 1000, "cursor": page.json()["next_cursor"]})
    assert (names(rest), rest.json()["next_cursor"]) == (["n3"], None)
