"""Acquire, renew, release and read: one holder at a time, under a token that only grows; with Redis and without."""

from __future__ import annotations

import asyncio
from datetime import datetime

import httpx
import pytest

from tests.leases.calls import Leases
from tests.payloads import problem


async def test_a_lease_is_taken_by_one_and_refused_to_the_others_until_it_is_released(leases: Leases) -> None:
    taken = await leases.done("acquire", holder="a", lease_seconds=60)
    assert (taken["name"], taken["holder"], taken["fencing_token"], taken["lease_seconds"]) == ("l", "a", 1, 60)
    length = datetime.fromisoformat(taken["expires_at"]) - datetime.fromisoformat(taken["acquired_at"])
    assert 59 < length.total_seconds() < 61
    refused = await leases.ask("acquire", holder="b")
    assert problem(refused) == (409, "lease_held")
    facts = {name: refused.json()[name] for name in ("name", "holder", "fencing_token", "expires_at")}
    assert facts == {"name": "l", "holder": "a", "fencing_token": 1, "expires_at": taken["expires_at"]}
    released = await leases.release("a", 1)
    assert (released["holder"], released["fencing_token"]) == (None, 1)
    assert await leases.acquire("b") == 2
    assert await leases.acquire("c", name="another") == 1


async def test_who_holds_it_and_asks_again_keeps_its_token_for_another_length(leases: Leases) -> None:
    first = await leases.done("acquire", holder="a", lease_seconds=20)
    again = await leases.done("acquire", holder="a", lease_seconds=90)
    assert again["fencing_token"] == 1
    assert (again["lease_seconds"], again["acquired_at"]) == (90, first["acquired_at"])
    assert again["expires_at"] > first["expires_at"]


async def test_a_renewal_extends_the_lease_and_moves_nothing_else(leases: Leases, client: httpx.AsyncClient) -> None:
    taken = await leases.done("acquire", holder="a")
    for _ in range(3):
        renewed = await leases.renew("a", 1)
        assert renewed["expires_at"] > taken["expires_at"]
        assert {**renewed, "expires_at": ""} == {**taken, "expires_at": ""}
        assert (await client.get("/v1/leases/l")).json() == renewed
        assert (await client.get("/v1/leases")).json() == {"items": [renewed], "next_cursor": None}
        taken = renewed


@pytest.mark.parametrize("change", ["renew", "release"])
async def test_only_the_holder_under_its_token_changes_a_lease(
    leases: Leases, client: httpx.AsyncClient, change: str
) -> None:
    assert problem(await leases.ask(change, holder="a", fencing_token=1)) == (404, "lease_not_found")
    await leases.acquire("a")
    before = await client.get("/v1/leases/l")
    for holder, token in (("b", 1), ("a", 2), ("a", 2**53 - 1)):
        refused = await leases.ask(change, holder=holder, fencing_token=token)
        assert problem(refused) == (409, "lease_lost")
        assert (refused.json()["name"], refused.json()["current_token"], refused.json()["holder"]) == ("l", 1, "a")
    assert (await client.get("/v1/leases/l")).content == before.content


async def test_what_was_released_cannot_be_renewed_and_releasing_again_answers_the_same(leases: Leases) -> None:
    await leases.acquire("a")
    released = await leases.release("a", 1)
    assert await leases.release("a", 1) == released
    refused = await leases.ask("renew", holder="a", fencing_token=1)
    assert problem(refused) == (409, "lease_lost")
    assert (refused.json()["current_token"], refused.json()["holder"]) == (1, None)
    assert await leases.acquire("a") == 2


async def test_a_lease_that_lapsed_is_renewed_as_long_as_nobody_took_it(leases: Leases) -> None:
    await leases.acquire("a", lease_seconds=1)
    assert await leases.acquired("b", lease_seconds=1) == 2
    assert problem(await leases.ask("renew", holder="a", fencing_token=1)) == (409, "lease_lost")
    assert await leases.acquired("c", lease_seconds=3600) == 3


async def test_of_many_who_ask_at_once_one_gets_the_lease(leases: Leases) -> None:
    for turn in range(1, 4):
        answers = await asyncio.gather(*(leases.ask("acquire", holder=f"h{number}") for number in range(12)))
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert [problem(answer) for answer in answers if answer.status_code != 200] == [(409, "lease_held")] * 11
        assert won["fencing_token"] == turn
        await leases.release(won["holder"], turn)


async def test_bounds_and_names_are_checked(leases: Leases, client: httpx.AsyncClient) -> None:
    for name in ("a/b", "ü?#[", "acquire", "x" * 255):
        assert await leases.acquire("h", name=name) == 1
    listed = (await client.get("/v1/leases")).json()["items"]
    assert [lease["name"] for lease in listed] == sorted(["a/b", "ü?#[", "acquire", "x" * 255])
    for body in (
        {"holder": ""},
        {"holder": "h", "lease_seconds": 0},
        {"holder": "h", "lease_seconds": 3601},
        {"holder": "h", "lease_seconds": "1"},
        {"holder": "h\x00"},
        {"holder": "h", "more": 1},
    ):
        assert problem(await leases.ask("acquire", **body)) == (422, "invalid_input"), body
    for name in ("x" * 256, "a\x00"):
        assert problem(await leases.ask("acquire", name, holder="h")) == (422, "invalid_input"), name
    for token in (0, 2**53, "1"):
        assert problem(await leases.ask("renew", "a/b", holder="h", fencing_token=token)) == (422, "invalid_input")


async def test_a_key_makes_an_acquisition_once_and_a_batch_makes_all_or_nothing(
    leases: Leases, client: httpx.AsyncClient
) -> None:
    key = {"idempotency-key": "k"}
    first = await client.post("/v1/leases/l/acquire", json={"holder": "a"}, headers=key)
    await leases.release("a", 1)
    again = await client.post("/v1/leases/l/acquire", json={"holder": "a"}, headers=key)
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    acquire = {"method": "POST", "path": "/v1/leases/l/acquire", "body": {"holder": "b"}}
    lost = {"method": "POST", "path": "/v1/leases/l/renew", "body": {"holder": "b", "fencing_token": 1}}
    refused = await client.post("/v1/batch", json={"operations": [acquire, lost]})
    assert problem(refused) == (409, "lease_lost")
    assert (await client.get("/v1/leases/l")).json()["holder"] is None
    done = await client.post("/v1/batch", json={"operations": [acquire]})
    assert done.json()["results"][0]["body"]["fencing_token"] == 2


async def test_leases_belong_to_their_tenant_and_the_service_s_own_to_nobody(
    leases: Leases, other: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    await leases.acquire("a")
    assert problem(await other.get("/v1/leases/l")) == (404, "lease_not_found")
    assert await Leases(other).acquire("b") == 1
    assert [lease["holder"] for lease in (await client.get("/v1/leases")).json()["items"]] == ["a"]
