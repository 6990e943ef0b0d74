"""What was given up is tried again, each letter once, or its letter is removed."""

from __future__ import annotations

from asyncio import gather

import httpx

from app.http.service import Service
from tests.deadletters.letters import given_up
from tests.payloads import codes, problem, send
from tests.submissions.calls import Calls
from tests.webhooks.hooks import Hooks


async def letters(client: httpx.AsyncClient) -> list[str]:
    """The subjects of all letters, the oldest first."""
    return [letter["subject"] for letter in (await client.get("/v1/dead-letters?order=asc")).json()["items"]]


async def test_a_submission_is_admitted_as_a_new_one(client: httpx.AsyncClient) -> None:
    calls = Calls(client)
    given = b'{"id":"a","session_key":"a","kind":"direct","agent":"g","instance_id":"i","input":{"n":1.0, "x":1e400},'
    admitted = await send(
        client, "POST", "/v1/submissions", given + b'"max_attempts":1,"timeout_seconds":77,"priority":5}'
    )
    assert admitted.status_code == 201, admitted.text
    await calls.done("a/claim", attempt_id="at", owner_id="w", lease_seconds=30)
    await calls.done("a/requeue", attempt_id="at", error="It broke.")
    (letter,) = (await client.get("/v1/dead-letters")).json()["items"]
    replayed = await client.post(f"/v1/dead-letters/{letter['id']}/replay")
    assert replayed.status_code == 200, replayed.text
    new = replayed.json()["replayed_as"]
    assert replayed.json() == {"id": letter["id"], "source": "submission", "subject": "a", "replayed_as": new}
    assert await letters(client) == []
    found = await client.get(f"/v1/submissions/{new}")
    assert b'"input":{"n":1.0, "x":1e400}' in found.content
    old = (await client.get("/v1/submissions/a")).json()
    kept = ("session_key", "kind", "agent", "instance_id", "priority", "max_attempts", "timeout_seconds", "on_lapse")
    assert {name: found.json()[name] for name in kept} == {name: old[name] for name in kept}
    assert (old["status"], found.json()["status"], found.json()["attempt_count"]) == ("settled", "queued", 0)
    claimed = await client.post("/v1/submissions/claim-next", json={"owner_id": "w", "lease_seconds": 30, "limit": 1})
    assert [item["id"] for item in claimed.json()["items"]] == [new]
    again = await client.post(f"/v1/dead-letters/{letter['id']}/replay")
    assert problem(again) == (404, "dead_letter_not_found")


async def test_a_submission_that_was_removed_cannot_be_replayed(client: httpx.AsyncClient) -> None:
    letter = await given_up(client, "a")
    assert (await client.delete("/v1/submissions/a")).status_code == 204
    assert problem(await client.post(f"/v1/dead-letters/{letter['id']}/replay")) == (409, "submission_gone")
    assert await letters(client) == ["a"]


async def test_a_delivery_begins_a_new_round(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    name = await hooks.delivery(status="dead")
    letter = await hooks.letter(name)
    replayed = await client.post(f"/v1/dead-letters/{letter}/replay")
    assert replayed.json() == {"id": letter, "source": "webhook", "subject": name, "replayed_as": name}
    (row,) = await hooks.execute(
        "SELECT status, attempt_count, round_count, dispatch, ended_at FROM webhook_deliveries WHERE tenant_id = $1"
    )
    assert tuple(row) == ("pending", 3, 0, 3, None)
    assert await letters(client) == []


async def test_a_letter_is_replayed_once_by_many_at_once(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    name = await hooks.delivery(status="dead")
    letter = await hooks.letter(name)
    submission = await given_up(client, "a")
    for one, subject in ((letter, name), (submission["id"], "a")):
        answers = await gather(
            *(client.post(f"/v1/dead-letters/{one}/replay") for _ in range(6)),
            *(client.post("/v1/dead-letters/replay", json={"subject": subject}) for _ in range(3)),
        )
        alone = codes(answers[:6]).count(200)
        together = [item["id"] for answer in answers[6:] for item in answer.json()["items"]]
        assert alone + together.count(one) == 1, [answer.text for answer in answers]
        assert set(codes(answers[:6])) <= {200, 404}
    assert await letters(client) == []
    listed = (await client.get("/v1/submissions")).json()["items"]
    assert len(listed) == 2, "the one that was given up, and one that is new"


async def test_a_delivery_is_sent_anew_once_by_whichever_call(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    for _ in range(5):
        name = await hooks.delivery(status="dead")
        letter = await hooks.letter(name)
        answers = await gather(
            *(client.post(f"/v1/deliveries/{name}/redeliver") for _ in range(3)),
            *(client.post(f"/v1/dead-letters/{letter}/replay") for _ in range(3)),
            client.delete(f"/v1/dead-letters/{letter}"),
        )
        sent = codes(answers[:3]).count(202) + codes(answers[3:6]).count(200)
        assert sent == 1, [answer.text for answer in answers]
        assert set(codes(answers)) <= {200, 202, 204, 404, 409}
        (row,) = await hooks.execute(
            "SELECT status, round_count FROM webhook_deliveries WHERE tenant_id = $1 AND id = $2", name
        )
        assert tuple(row) == ("pending", 0)
        assert await letters(client) == []


async def test_letters_are_replayed_by_filter_in_pages(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made("one")
    await hooks.made("two")
    of_one = [await hooks.delivery("one", "dead") for _ in range(3)]
    of_two = await hooks.delivery("two", "dead")
    await given_up(client, "a")
    await client.delete("/v1/webhooks/two")
    assert problem(await client.post("/v1/dead-letters/replay", json={})) == (422, "filter_required")
    assert problem(await client.post("/v1/dead-letters/replay", json={"all": False, "limit": 1})) == (
        422, "filter_required",
    )  # fmt: skip
    first = await client.post("/v1/dead-letters/replay", json={"webhook_id": "one", "limit": 2})
    assert first.status_code == 200, first.text
    assert [item["subject"] for item in first.json()["items"]] == of_one[:2]
    assert (first.json()["replayed"], first.json()["refused"]) == (2, 0)
    rest = {"webhook_id": "one", "limit": 2, "cursor": first.json()["next_cursor"]}
    second = await client.post("/v1/dead-letters/replay", json=rest)
    assert [item["subject"] for item in second.json()["items"]] == of_one[2:]
    assert second.json()["next_cursor"] is None
    foreign = await client.post("/v1/dead-letters/replay", json={**rest, "webhook_id": "two"})
    assert problem(foreign) == (400, "bad_cursor")
    everything = (await client.post("/v1/dead-letters/replay", json={"all": True})).json()
    assert [item["subject"] for item in everything["items"]] == ["a"]
    (refusal,) = everything["refusals"]
    assert (refusal["subject"], refusal["code"], everything["refused"]) == (of_two, "endpoint_gone", 1)
    assert await letters(client) == [of_two]


async def test_letters_are_purged_by_filter_and_counted(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    for _ in range(3):
        await hooks.delivery(status="dead")
    letter = await given_up(client, "a")
    assert problem(await client.delete("/v1/dead-letters")) == (422, "filter_required")
    assert problem(await client.delete("/v1/dead-letters?all=false")) == (422, "filter_required")
    counts = [(await client.delete("/v1/dead-letters?source=webhook&webhook_id=wh&limit=2")).json() for _ in range(2)]
    assert counts == [{"deleted": 2, "more": True}, {"deleted": 1, "more": False}]
    assert await letters(client) == ["a"]
    assert (await client.delete(f"/v1/dead-letters/{letter['id']}")).status_code == 204
    assert problem(await client.delete(f"/v1/dead-letters/{letter['id']}")) == (404, "dead_letter_not_found")
    await given_up(client, "b")
    assert (await client.delete("/v1/dead-letters?all=true")).json() == {"deleted": 1, "more": False}
    deliveries = (await client.get("/v1/deliveries?status=dead")).json()["items"]
    assert len(deliveries) == 3, "what a letter tells of stays"


async def test_purges_at_once_count_each_letter_once(client: httpx.AsyncClient) -> None:
    for name in "abcd":
        await given_up(client, name)
    answers = await gather(*(client.delete("/v1/dead-letters?all=true") for _ in range(4)))
    assert sum(answer.json()["deleted"] for answer in answers) == 4


async def test_another_tenants_letters_are_not_touched(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    letter = await given_up(client, "a")
    for answer in (
        await other.post(f"/v1/dead-letters/{letter['id']}/replay"),
        await other.delete(f"/v1/dead-letters/{letter['id']}"),
    ):
        assert problem(answer) == (404, "dead_letter_not_found")
    assert (await other.post("/v1/dead-letters/replay", json={"all": True})).json()["replayed"] == 0
    assert (await other.delete("/v1/dead-letters?all=true")).json()["deleted"] == 0
    assert await letters(client) == ["a"]
