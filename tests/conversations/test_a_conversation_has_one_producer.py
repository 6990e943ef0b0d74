"""Creating, acquiring, appending: one producer at a time, all or nothing, an exact retry answers the same offset."""

from __future__ import annotations

from asyncio import gather
from collections import Counter

import httpx
import pytest

from app.db.sql import Statement
from app.http.service import Service
from tests.conversations.streams import Stream, created, offset
from tests.payloads import problem, send

WHOSE = {"agent_name": "echo", "instance_id": "i1"}


async def test_equal_creates_race_and_all_succeed(client: httpx.AsyncClient) -> None:
    body = {"path": "agents/echo/i1", "identity": WHOSE}
    answers = await gather(*(client.put("/v1/conversations", json=body) for _ in range(20)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 19}
    assert len({answer.json()["incarnation"] for answer in answers}) == 1


async def test_of_conflicting_creates_exactly_one_identity_wins(client: httpx.AsyncClient) -> None:
    answers = await gather(
        *(
            client.put("/v1/conversations", json={"path": "p", "identity": {**WHOSE, "instance_id": str(n % 2)}})
            for n in range(10)
        )
    )
    won = (await client.get("/v1/conversations/meta", params={"path": "p"})).json()["identity"]
    for number, answer in enumerate(answers):
        if str(number % 2) == won["instance_id"]:
            assert answer.status_code in (200, 201)
        else:
            assert problem(answer) == (409, "conversation_conflict")
            assert answer.json()["identity"] == won


async def test_the_first_batch_has_the_first_offset_and_the_head_follows(stream: Stream) -> None:
    assert (await stream.meta())["next_offset"] == "-1"
    first = await stream.append(b'[{"id":"a"},{"id":"b"}]')
    assert (first.status_code, first.json()) == (200, {"offset": "0000000000000000_0000000000000000"})
    shown = await stream.meta()
    assert (shown["next_offset"], shown["next_producer_sequence"]) == (offset(0), 1)
    assert shown["identity"] == WHOSE
    assert await stream.read() == {
        "batches": [{"offset": offset(0), "records": [{"id": "a"}, {"id": "b"}]}],
        "next_offset": offset(0),
        "up_to_date": True,
    }


async def test_acquiring_starts_a_new_epoch_at_the_head(stream: Stream) -> None:
    await stream.append()
    claim = await stream.acquire("p2")
    assert claim == {
        "producer_id": "p2",
        "producer_epoch": 2,
        "incarnation": stream.claim["incarnation"],
        "next_producer_sequence": 0,
        "offset": offset(0),
    }


async def test_b13_two_processes_that_append_from_the_same_head_do_not_fork_it(stream: Stream) -> None:
    bodies = [b'[{"by":%d},{"more":%d}]' % (n, n) for n in range(12)]
    answers = await gather(*(stream.append(body, 0) for body in bodies))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 11}
    for answer in answers:
        if answer.status_code == 409:
            assert (problem(answer)[1], answer.json()["expected"]) == ("sequence_conflict", 1)
    (won,) = (place for place, answer in enumerate(answers) if answer.status_code == 200)
    found = await stream.read()
    assert [batch["records"] for batch in found["batches"]] == [[{"by": won}, {"more": won}]]


async def test_b13_a_lost_answer_is_fetched_by_the_same_append(stream: Stream) -> None:
    first = await stream.append(b'[{"a":1.0}]', 0)
    again = await stream.append(b'[{"a":1.0}]', 0)
    assert (again.status_code, again.content) == (200, first.content)
    assert len((await stream.read())["batches"]) == 1
    assert (await stream.meta())["next_producer_sequence"] == 1
    await stream.append(b'[{"a":2}]', 1)
    assert (await stream.append(b'[{"a":1.0}]', 0)).content == first.content


async def test_b13_equal_appends_at_once_store_one_batch(stream: Stream) -> None:
    answers = await gather(*(stream.append(b'[{"a":1}]', 0) for _ in range(12)))
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, answers[0].content)}
    assert len((await stream.read())["batches"]) == 1


async def test_b13_the_same_number_with_another_text_is_a_conflict(stream: Stream) -> None:
    await stream.append(b'[{"a":"x"}]', 0)
    for other in (b'[{"a":"y"}]', b'[{"a": "x"}]', b'[{"a":"x"},{}]'):
        refused = await stream.append(other, 0)
        assert problem(refused) == (409, "sequence_conflict")
        assert (refused.json()["expected"], refused.json()["offset"]) == (1, offset(0))
    assert len((await stream.read())["batches"]) == 1


async def test_b13_a_skipped_number_is_refused_with_the_next(stream: Stream) -> None:
    for sequence in (1, 2, 9007199254740991):
        refused = await stream.append(b'[{"a":1}]', sequence)
        assert (problem(refused), refused.json()["expected"]) == ((409, "sequence_conflict"), 0)
    assert (await stream.read())["batches"] == []


async def test_b13_a_batch_whose_third_record_is_invalid_stores_nothing(stream: Stream) -> None:
    for third in (b"3", b"[]", b'"x"', b"null", b"true"):
        refused = await stream.append(b'[{"a":1},{"a":2}, %b]' % third, 0)
        assert problem(refused) == (422, "invalid_input")
        assert refused.json()["errors"] == [{"pointer": "/records/2", "message": "must be an object"}]
    assert (await stream.read())["batches"] == []
    assert (await stream.append(b'[{"a":1}]', 0)).status_code == 200


@pytest.mark.parametrize("records", [b"{}", b'"x"', b"1", b"null", b"[]", b" [ ] "])
async def test_records_that_are_no_filled_array_are_refused(stream: Stream, records: bytes) -> None:
    refused = await stream.append(records, 0)
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == "/records"


async def test_a_stale_producer_is_told_the_current_epoch(stream: Stream) -> None:
    old = dict(stream.claim)
    await stream.append(b'[{"a":1}]', 0)
    current = await stream.acquire()
    stream.claim = old
    # The old claim is dead also for the retry of what it stored, and where the producer's id is the same.
    refused = await stream.append(b'[{"a":1}]', 0)
    assert problem(refused) == (409, "stale_producer")
    assert refused.json()["producer_epoch"] == current["producer_epoch"] == 2
    for member, value in (("producer_id", "other"), ("incarnation", "inc_other"), ("producer_epoch", 3)):
        stream.claim = {**current, member: value}
        assert problem(await stream.append(b'[{"a":1}]', 0)) == (409, "stale_producer")
    assert len((await stream.read())["batches"]) == 1


async def test_a_key_replays_what_was_answered(client: httpx.AsyncClient, stream: Stream) -> None:
    first = await stream.append(b'[{"a":1}]', 0, headers={"idempotency-key": "k"})
    await stream.acquire("p2")
    # Without its key the claim would be stale by now.
    again = await client.post(
        "/v1/conversations/append", content=first.request.content,
        headers={"content-type": "application/json", "idempotency-key": "k"},
    )  # fmt: skip
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_claim_that_was_answered_into_the_void_is_replayed_by_its_key(
    client: httpx.AsyncClient, stream: Stream
) -> None:
    body = {"path": stream.path, "producer_id": "p"}
    answers = [
        await client.post("/v1/conversations/acquire", json=body, headers={"idempotency-key": "a"}) for _ in range(2)
    ]
    assert answers[0].content == answers[1].content
    assert (await stream.meta())["producer_epoch"] == 2


async def test_where_there_is_no_conversation_nothing_is_acquired_appended_or_deleted(
    client: httpx.AsyncClient, stream: Stream
) -> None:
    stream.path = "nowhere"
    assert problem(await stream.append()) == (404, "conversation_not_found")
    for answer in (
        await client.post("/v1/conversations/acquire", json={"path": "nowhere", "producer_id": "p"}),
        await client.get("/v1/conversations/meta?path=nowhere"),
        await client.delete("/v1/conversations?path=nowhere"),
    ):
        assert problem(answer) == (404, "conversation_not_found")
    assert await stream.read() == {"batches": [], "next_offset": "-1", "up_to_date": True}


async def test_a_deleted_conversation_is_gone_and_another_may_come(client: httpx.AsyncClient, stream: Stream) -> None:
    for _ in range(3):
        await stream.append()
    checkpoint = {"offset": offset(2), "incarnation": "x", "format_version": 1, "data": "s"}
    at = {"path": stream.path}
    assert (await client.put("/v1/conversations/checkpoint", params=at, json=checkpoint)).status_code == 201
    gone = await client.delete("/v1/conversations", params=at)
    assert (gone.status_code, gone.content) == (204, b"")
    assert await stream.read() == {"batches": [], "next_offset": "-1", "up_to_date": True}
    assert problem(await client.get("/v1/conversations/checkpoint", params=at))[0] == 404
    assert problem(await stream.append()) == (404, "conversation_not_found")
    old = stream.claim
    new = await created(client)
    assert new.claim["incarnation"] != old["incarnation"]
    assert (await new.append()).json()["offset"] == offset(0)


@pytest.mark.parametrize("turn", range(5))
async def test_of_an_append_and_a_deletion_at_once_neither_leaves_half(
    client: httpx.AsyncClient, stream: Stream, turn: int
) -> None:
    await stream.append()
    answers = await gather(
        *(stream.append(b'[{"a":1}]', 1) for _ in range(4)),
        client.delete("/v1/conversations", params={"path": stream.path}),
    )
    assert answers[-1].status_code == 204, answers[-1].text
    assert {answer.status_code for answer in answers[:-1]} <= {200, 404}
    assert (await stream.read())["batches"] == []


async def test_paths_may_hold_anything_and_are_bounded_in_bytes(client: httpx.AsyncClient) -> None:
    for path in ("agents/a b/ü?#[%2F\"'", "..", "latest", "é" * 512, "x" * 1024):
        stream = await created(client, path)
        assert (await stream.append()).status_code == 200
        assert (await stream.meta())["path"] == path
    for path in ("", "é" * 513, "x" * 1025, "a\x00b"):
        refused = await client.put("/v1/conversations", json={"path": path, "identity": WHOSE})
        assert (problem(refused), refused.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/path")
        assert problem(await client.get("/v1/conversations/read", params={"path": path})) == (422, "invalid_input")
    surrogate = b'{"path":"a\\ud800","identity":{"agent_name":"a","instance_id":"b"}}'
    assert problem(await send(client, "PUT", "/v1/conversations", surrogate))[0] == 422


async def test_creation_and_deletion_are_events_and_appends_are_not(
    service: Service, client: httpx.AsyncClient, stream: Stream
) -> None:
    await stream.append()
    await client.put("/v1/conversations", json={"path": stream.path, "identity": WHOSE})
    await client.delete("/v1/conversations", params={"path": stream.path})
    found = await service.ground.database.rows(
        Statement("SELECT type, subject_type, subject_id FROM outbox WHERE tenant_id = :tenant_id ORDER BY number"),
        tenant_id=client.headers["x-test-tenant"],
    )
    assert [tuple(row) for row in found] == [
        ("conversation.created", "conversation", stream.path),
        ("conversation.deleted", "conversation", stream.path),
    ]


async def test_conversations_are_listed_by_agent(client: httpx.AsyncClient) -> None:
    for number in range(5):
        await created(client, f"p{number}", agent_name=f"a{number % 2}")
    found = (await client.get("/v1/conversations?agent_name=a0&limit=2&count=exact")).json()
    assert ([item["path"] for item in found["items"]], found["total"]) == (["p4", "p2"], 3)
    rest = await client.get(
        "/v1/conversations", params={"agent_name": "a0", "limit": 2, "cursor": found["next_cursor"]}
    )
    assert [item["path"] for item in rest.json()["items"]] == ["p0"]
