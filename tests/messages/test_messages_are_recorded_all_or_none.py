"""Messages: one or many in one statement, replays by digest, exact payloads, pages by number."""

from __future__ import annotations

import json
from asyncio import gather
from typing import Any

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import PAYLOADS, codes, problem, send

PATH = "/v1/invocations/inv/messages"


@pytest.fixture(autouse=True)
async def invocation(make: Make) -> dict[str, Any]:
    return await make.invocation(id="inv")


async def listed(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_one_object_answers_the_message_itself(client: httpx.AsyncClient) -> None:
    body = {"id": "m", "seq": 7, "role": "user", "from_node_id": "start", "to_node_id": "n", "payload": {"a": 1}}
    made = await client.post(PATH, json=body)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json() == {
        **{name: body[name] for name in ("id", "seq", "role", "from_node_id", "to_node_id")},
        "invocation_id": "inv",
        "origin_node_invocation_id": None,
        "target_node_invocation_id": None,
        "created_at": made.json()["created_at"],
    }
    again = await client.post(PATH, json=body)
    assert (again.status_code, again.content) == (200, made.content)


async def test_items_come_back_in_the_order_sent_with_ids_and_numbers_made(client: httpx.AsyncClient) -> None:
    sent = [{"role": "z"}, {"id": "b", "role": "y", "seq": -5}, {"id": "a", "role": "x"}]
    made = await client.post(PATH, json={"items": sent})
    assert made.status_code == 201
    items = made.json()["items"]
    assert [item["role"] for item in items] == ["z", "y", "x"]
    assert items[0]["id"].startswith("msg_")
    assert items[0]["seq"] < items[2]["seq"]
    assert items[1]["seq"] == -5
    assert [item["role"] for item in await listed(client)] == ["y", "z", "x"]


async def test_a_thousand_messages_are_one_call_and_one_more_is_refused(client: httpx.AsyncClient) -> None:
    items = [{"role": "user", "payload": n} for n in range(1001)]
    assert problem(await client.post(PATH, json={"items": items})) == (422, "invalid_input")
    assert problem(await client.post(PATH, json={"items": []})) == (422, "invalid_input")
    assert (await client.post(PATH, json={"items": items[:1000]})).status_code == 201
    assert (await client.get(PATH, params={"count": "exact", "limit": 1})).json()["total"] == 1000


async def test_a_replayed_message_is_answered_as_it_now_is(client: httpx.AsyncClient) -> None:
    body = {"id": "m", "role": "user"}
    await client.post(PATH, json=body)
    changed = await client.patch(f"{PATH}/m", json={"target_node_invocation_id": "ni"})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    mixed = await client.post(PATH, json={"items": [{"id": "k", "role": "user"}, body]})
    assert mixed.status_code == 201
    assert [item["target_node_invocation_id"] for item in mixed.json()["items"]] == [None, "ni"]
    assert (await client.post(PATH, json={"items": [body]})).status_code == 200


async def test_one_taken_id_refuses_the_whole_call_and_is_named(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"items": [{"id": name, "role": "user"} for name in ("a", "b")]})
    items = [{"id": "a", "role": "other"}, {"id": "new", "role": "user"}, {"id": "b", "role": "user", "payload": 1}]
    refused = await client.post(PATH, json={"items": items})
    assert problem(refused) == (409, "message_conflict")
    assert sorted(refused.json()["ids"]) == ["a", "b"]
    assert problem(await client.post(PATH, json=items[0])) == (409, "message_conflict")
    assert [item["id"] for item in await listed(client)] == ["a", "b"]


async def test_an_id_that_comes_twice_in_one_call_is_refused(client: httpx.AsyncClient) -> None:
    refused = await client.post(
        PATH, json={"items": [{"id": "a", "role": "r"}, {"role": "r"}, {"id": "a", "role": "r"}]}
    )
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == "/items/2/id"
    assert await listed(client) == []


async def test_fifty_parallel_creates_with_one_id_make_one_row(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(PATH, json={"id": "m", "role": "user"}) for _ in range(50)))
    assert codes(answers) == [200] * 49 + [201]
    assert len({answer.content for answer in answers}) == 1


async def test_b14_calls_with_the_same_ids_in_opposite_order_do_not_lock_each_other(client: httpx.AsyncClient) -> None:
    items = [{"id": f"m{n:03}", "role": "user", "payload": "x" * 500} for n in range(200)]
    calls = [items, items[::-1]] * 8
    answers = await gather(*(client.post(PATH, json={"items": call}) for call in calls))
    assert codes(answers) == [200] * 15 + [201]
    assert len(await listed(client, limit=1000)) == 200


async def test_an_unknown_invocation_is_named_as_what_is_missing(client: httpx.AsyncClient) -> None:
    for body in ({"role": "r"}, {"items": [{"role": "r"}]}):
        answer = await client.post("/v1/invocations/none/messages", json=body)
        assert problem(answer) == (404, "invocation_not_found")
    assert problem(await client.get("/v1/invocations/none/messages")) == (404, "invocation_not_found")
    assert problem(await client.get(f"{PATH}/none")) == (404, "message_not_found")
    missing = await client.patch(f"{PATH}/none", json={"target_node_invocation_id": None})
    assert problem(missing) == (404, "message_not_found")


async def test_another_tenant_sees_none_of_it(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"id": "m", "role": "user"})
    assert problem(await other.get(f"{PATH}/m")) == (404, "message_not_found")
    assert problem(await other.post(PATH, json={"role": "user"})) == (404, "invocation_not_found")


@pytest.mark.parametrize(
    "body",
    [
        b'{"role":"r","seq":1.5}',
        b'{"role":"r","seq":"1"}',
        b'{"role":"r","seq":false}',
        b'{"role":"r","seq":9007199254740992}',
        b'{"role":"r","id":""}',
        b'{"role":"r","id":"a\\u0000"}',
        b'{"role":"\\u0000"}',
        b'{"role":"\\ud83d"}',
        b'{"role":null}',
        b'{"payload":1}',
        b'{"role":"r","payloads":1}',
        b'{"role":"r","items":[{"role":"r"}]}',
        b'{"items":{"role":"r"}}',
        b'{"items":[1]}',
        b'{"items":[{"role":"r"},{"role":"r","seq":"x"}]}',
        b'{"role":"r","payload":' + b"[" * 513 + b"]" * 513 + b"}",
        b"[]",
    ],
)
async def test_what_is_not_a_message_is_refused_whole(client: httpx.AsyncClient, body: bytes) -> None:
    assert problem(await send(client, "POST", PATH, body)) == (422, "invalid_input")
    assert await listed(client) == []


@pytest.mark.parametrize(
    "body", [b'{"role":"r","payload":NaN}', b'{"role":"r","role":"s"}', b'{"role":"r","payload":[}']
)
async def test_what_is_not_json_is_malformed(client: httpx.AsyncClient, body: bytes) -> None:
    assert problem(await send(client, "POST", PATH, body)) == (400, "malformed_request")


@pytest.mark.parametrize("name", PAYLOADS)
async def test_b01_every_payload_comes_back_byte_for_byte(client: httpx.AsyncClient, name: str) -> None:
    payload = PAYLOADS[name]
    one = b'{"id":"one","role":"r","payload":%s}' % payload
    made = await send(client, "POST", f"{PATH}?include=payload", one)
    assert made.status_code == 201, made.text
    assert b'"payload":' + payload in made.content
    many = await send(client, "POST", PATH, b'{"items":[{"id":"two","role":"r","payload": %s }]}' % payload)
    assert (many.status_code, b"payload" in many.content) == (201, False)
    for answer in (await client.get(f"{PATH}/one"), await client.get(f"{PATH}/two?include=payload")):
        assert b'"payload":' + payload in answer.content
    assert (await client.get(PATH, params={"include": "payload"})).content.count(b'"payload":' + payload) == 2
    assert b"payload" not in (await client.get(PATH)).content


async def test_twenty_megabytes_come_back_whole(client: httpx.AsyncClient) -> None:
    payload = b'"' + b"x" * 20_000_000 + b'"'
    assert (await send(client, "POST", PATH, b'{"id":"m","role":"r","payload":%s}' % payload)).status_code == 201
    assert b'"payload":' + payload in (await client.get(f"{PATH}/m")).content


async def test_b08_a_kept_answer_is_replayed_and_payloads_are_read_again(client: httpx.AsyncClient) -> None:
    body = b'{"items":[{"role":"r","payload":{"b":1.0,"a":2}},{"role":"s"}]}'
    path, key = f"{PATH}?include=payload", {"idempotency-key": "k"}
    answers = await gather(*(send(client, "POST", path, body, **key) for _ in range(20)))
    assert codes(answers) == [201] * 20
    assert len({answer.content for answer in answers}) == 1
    assert b'"payload":{"b":1.0,"a":2}' in answers[0].content
    assert sum(answer.headers.get("idempotency-replayed") == "true" for answer in answers) == 19
    assert len(await listed(client)) == 2
    reused = await send(client, "POST", path, b'{"role":"r"}', **key)
    assert problem(reused) == (422, "idempotency_key_reused")


async def test_a_refusal_under_a_key_leaves_the_key_free(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"id": "m", "role": "a"})
    for _ in range(2):
        refused = await client.post(PATH, json={"id": "m", "role": "b"}, headers={"idempotency-key": "k"})
        assert problem(refused) == (409, "message_conflict")
    assert (await client.post(PATH, json={"role": "b"}, headers={"idempotency-key": "k"})).status_code == 201


async def test_a_conflict_inside_a_batch_names_the_ids_and_undoes_the_batch(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"id": "m", "role": "a"})
    operations = [
        {"method": "POST", "path": PATH, "body": {"id": "k", "role": "a"}},
        {"method": "POST", "path": PATH, "body": {"items": [{"id": "m", "role": "b"}, {"id": "l", "role": "b"}]}},
    ]
    refused = await client.post("/v1/batch", json={"operations": operations})
    assert problem(refused) == (409, "message_conflict")
    assert (refused.json()["ids"], refused.json()["index"]) == (["m"], 1)
    assert [item["id"] for item in await listed(client)] == ["m"]


async def test_a_change_under_an_old_etag_is_refused(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"id": "m", "role": "a", "payload": [1.0]})
    first = await client.patch(
        f"{PATH}/m?include=payload", json={"target_node_invocation_id": "x"}, headers={"if-match": '"1"'}
    )
    second = await client.patch(f"{PATH}/m", json={"target_node_invocation_id": "y"}, headers={"if-match": '"1"'})
    assert (first.status_code, problem(second)) == (200, (412, "precondition_failed"))
    assert b'"payload":[1.0]' in first.content
    assert problem(await client.patch(f"{PATH}/m", json={})) == (422, "invalid_input")
    assert problem(await client.patch(f"{PATH}/m", json={"role": "b"})) == (422, "invalid_input")


async def test_filters_narrow_and_unknown_ones_are_refused(client: httpx.AsyncClient) -> None:
    items = [
        {"id": "a", "seq": 1, "role": "user", "from_node_id": "p", "to_node_id": "q"},
        {"id": "b", "seq": 2, "role": "tool", "from_node_id": "q", "origin_node_invocation_id": "o"},
        {"id": "c", "seq": 3, "role": "data", "to_node_id": "r", "target_node_invocation_id": "t"},
    ]
    await client.post(PATH, json={"items": items})
    for query, ids in (
        ({"role": ["user", "data"]}, "ac"),
        ({"node_id": "q"}, "ab"),
        ({"node_id": ["p", "r"]}, "ac"),
        ({"origin": "o"}, "b"),
        ({"target": "t"}, "c"),
        ({"after_seq": 1}, "bc"),
        ({"order": "desc"}, "cba"),
        ({"role": "none"}, ""),
    ):
        assert "".join(item["id"] for item in await listed(client, **query)) == ids, query
    for query in ({"from": "p"}, {"after_seq": "x"}, {"after_seq": 2**53}, {"include": "role"}, {"sort": "role"}):
        assert problem(await client.get(PATH, params=query)) == (422, "invalid_input")


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_b07_pages_show_every_message_once_where_numbers_are_equal(client: httpx.AsyncClient, order: str) -> None:
    items = [{"id": f"m{n}", "seq": n // 10, "role": "user"} for n in range(25)]
    await client.post(PATH, json={"items": items})
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 4, "order": order}
    while True:
        page = (await client.get(PATH, params=query)).json()
        seen += [item["id"] for item in page["items"]]
        await client.post(PATH, json={"role": "later", "seq": 100 if order == "desc" else -100})
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    expected = [item["id"] for item in sorted(items, key=lambda item: (item["seq"], item["id"]))]
    assert seen == (expected if order == "asc" else expected[::-1])


async def test_the_answer_of_a_list_is_json_whatever_the_ids_hold(client: httpx.AsyncClient) -> None:
    odd = ['"', "\\", "a/b", "é€", "\x01", "%00"]
    made = await client.post(PATH, json={"items": [{"id": name, "role": name} for name in odd]})
    assert [item["id"] for item in json.loads(made.content)["items"]] == odd
    for name in odd:
        path = f"{PATH}/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert (await client.get(path)).json()["role"] == name
