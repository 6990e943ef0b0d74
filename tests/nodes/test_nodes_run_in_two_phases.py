"""Node invocations: start, end, record in one; the first terminal state wins."""

from __future__ import annotations

import json
from asyncio import gather
from datetime import datetime
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from tests.conftest import Make
from tests.payloads import PAYLOADS, codes, problem, send

PATH = "/v1/invocations/inv/nodes"


@pytest.fixture(autouse=True)
async def version(make: Make) -> dict[str, Any]:
    version = await make.version(nodes=[{"node_id": "n"}, {"node_id": "n", "llm_model": "m2"}, {"node_id": "o"}])
    await make.invocation(id="inv", version_id=version["id"])
    return version


async def start(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await client.post(PATH, json={"node_id": "n", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def events(client: httpx.AsyncClient, service: Any) -> list[tuple[str, str, str]]:
    rows = await service.ground.database.rows(
        Statement(
            "SELECT type, subject_id, subject_parent_id FROM outbox WHERE tenant_id = :tenant_id"
            " AND subject_type = 'node_invocation' ORDER BY number"
        ),
        tenant_id=client.headers["x-test-tenant"],
    )
    return [tuple(row) for row in rows]


async def test_a_start_is_linked_to_the_newest_revision_of_its_node(
    client: httpx.AsyncClient, version: dict[str, Any]
) -> None:
    nodes = (await client.get(f"/v1/versions/{version['id']}/nodes", params={"node_id": "n"})).json()["items"]
    started = await start(client, id="ni", attempt_no=2)
    newest = max(nodes, key=lambda node: node["revision"])
    assert started == {
        "id": "ni",
        "invocation_id": "inv",
        "node_id": "n",
        "node_version_id": newest["id"],
        "attempt_no": 2,
        "status": "running",
        "started_at": started["started_at"],
        "ended_at": None,
        **dict.fromkeys(("model", "summary", "large_summary", "usd_cost", "input_tokens", "output_tokens", "error")),
        "files": [],
        "metadata": {},
        "extras": {},
    }
    await client.post(f"/v1/versions/{version['id']}/nodes", json={"node_id": "n", "llm_model": "m3"})
    assert (await start(client))["node_version_id"] != newest["id"]
    replay = await client.post(PATH, json={"node_id": "n", "id": "ni", "attempt_no": 2})
    assert (replay.status_code, replay.json()) == (200, started)


async def test_what_is_missing_is_named(client: httpx.AsyncClient) -> None:
    assert problem(await client.post(PATH, json={"node_id": "x"})) == (404, "node_version_missing")
    missing = await client.post("/v1/invocations/none/nodes", json={"node_id": "n"})
    assert problem(missing) == (404, "invocation_not_found")
    for path in ("/v1/invocations/none/nodes", "/v1/invocations/none/summaries"):
        assert problem(await client.get(path)) == (404, "invocation_not_found")
    for answer in (
        await client.get(f"{PATH}/none"),
        await client.post(f"{PATH}/none/end", json={"status": "completed"}),
        await client.post(f"{PATH}/none/actions", json={"tool": "t"}),
        await client.get(f"{PATH}/none/actions"),
    ):
        assert problem(answer) == (404, "node_invocation_not_found")


async def test_the_end_keeps_what_the_start_said_unless_it_says_otherwise(
    client: httpx.AsyncClient, service: Any
) -> None:
    await start(
        client, id="ni", started_at="2026-01-05T10:00:00.000001Z", model="m", summary="s", files=["a"],
        metadata={"a": 1}, extras={"b": 2},
    )  # fmt: skip
    body = (
        b'{"status":"failed","ended_at":"2026-01-05T10:00:01Z","output":{"b":1.0,"a":1e400},"summary":null,'
        b'"usd_cost":0.000000000000000001,"input_tokens":9007199254740991,"error":{"message":"no","retryable":true},'
        b'"metadata":{"c":3}}'
    )
    ended = await send(client, "POST", f"{PATH}/ni/end?include=output", body)
    assert ended.status_code == 200, ended.text
    assert b'"output":{"b":1.0,"a":1e400}' in ended.content
    assert b'"usd_cost":0.000000000000000001,' in ended.content
    found = ended.json()
    assert (found["started_at"], found["ended_at"]) == ("2026-01-05T10:00:00.000001Z", "2026-01-05T10:00:01.000000Z")
    assert (found["status"], found["model"], found["summary"], found["files"]) == ("failed", "m", None, ["a"])
    assert (found["metadata"], found["extras"]) == ({"c": 3}, {"b": 2})
    assert found["error"] == {"message": "no", "retryable": True}
    assert found["input_tokens"] == 9007199254740991
    again = await send(client, "POST", f"{PATH}/ni/end", body)
    assert (again.status_code, again.headers["etag"]) == (200, '"2"')
    assert await events(client, service) == [
        ("node_invocation.started", "ni", "inv"),
        ("node_invocation.ended", "ni", "inv"),
    ]


async def test_the_first_terminal_state_stays(client: httpx.AsyncClient) -> None:
    await start(client, id="ni")
    assert (await client.post(f"{PATH}/ni/end", json={"status": "completed"})).status_code == 200
    refused = await client.post(f"{PATH}/ni/end", json={"status": "failed"})
    assert problem(refused) == (409, "node_invocation_ended")
    assert refused.json()["current_status"] == "completed"
    answers = []
    await start(client, id="many")
    for _ in range(2):
        answers += await gather(
            *(client.post(f"{PATH}/many/end", json={"status": "failed", "summary": str(n % 10)}) for n in range(20))
        )
    assert codes(answers) == [200] * 4 + [409] * 36


async def test_a_record_in_one_is_ended_from_the_start(client: httpx.AsyncClient, service: Any) -> None:
    body = {"id": "ni", "node_id": "n", "status": "completed", "ended_at": "2020-01-01T00:00:00Z", "output": [1]}
    made = await client.post(PATH, json=body)
    assert made.status_code == 201
    assert made.json()["started_at"] == made.json()["ended_at"] == "2020-01-01T00:00:00.000000Z"
    assert (await client.post(PATH, json=body)).status_code == 200
    refused = await client.post(f"{PATH}/ni/end", json={"status": "completed"})
    assert problem(refused) == (409, "node_invocation_ended")
    now = await start(client, status="failed")
    assert datetime.fromisoformat(now["started_at"]) <= datetime.fromisoformat(now["ended_at"])
    assert [event[0] for event in await events(client, service)] == ["node_invocation.ended"] * 2
    late = {"node_id": "n", "ended_at": "2020-01-01T00:00:00Z"}
    assert problem(await client.post(PATH, json=late)) == (422, "invalid_input")


async def test_the_same_id_with_other_fields_is_a_conflict_even_after_the_end(client: httpx.AsyncClient) -> None:
    started = {"id": "ni", "node_id": "n", "model": "m"}
    await client.post(PATH, json=started)
    await client.post(f"{PATH}/ni/end", json={"status": "completed"})
    replay = await client.post(PATH, json=started)
    assert (replay.status_code, replay.json()["status"]) == (200, "completed")
    conflict = await client.post(PATH, json={**started, "model": "other"})
    assert problem(conflict) == (409, "node_invocation_conflict")


async def test_fifty_parallel_starts_with_one_id_make_one_row_and_one_event(
    client: httpx.AsyncClient, service: Any
) -> None:
    answers = await gather(*(client.post(PATH, json={"id": "ni", "node_id": "n"}) for _ in range(50)))
    assert codes(answers) == [200] * 49 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert len(await events(client, service)) == 1


async def test_a_node_that_reports_after_its_invocation_ended_is_kept(client: httpx.AsyncClient) -> None:
    await client.post("/v1/invocations/inv/end", json={"status": "cancelled"})
    await start(client, id="late", status="completed", ended_at="2026-01-01T00:00:00Z")
    assert (await client.get(f"{PATH}/late")).json()["status"] == "completed"


async def test_an_end_under_an_old_etag_is_refused_and_its_repeat_is_not(client: httpx.AsyncClient) -> None:
    await start(client, id="ni")
    end = {"status": "completed"}
    stale = await client.post(f"{PATH}/ni/end", json=end, headers={"if-match": '"7"'})
    assert problem(stale) == (412, "precondition_failed")
    for _ in range(2):
        assert (await client.post(f"{PATH}/ni/end", json=end, headers={"if-match": '"1"'})).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"node_id":"n","status":"queued"}',
        b'{"node_id":"n","attempt_no":0}',
        b'{"node_id":"n","attempt_no":1.5}',
        b'{"node_id":"n","input_tokens":-1}',
        b'{"node_id":"n","input_tokens":9007199254740992}',
        b'{"node_id":"n","usd_cost":true}',
        b'{"node_id":"n","started_at":"2026-01-01T00:00:00"}',
        b'{"node_id":"n","started_at":1767225600000}',
        b'{"node_id":"n","metadata":[]}',
        b'{"node_id":"n","metadata":{"a":"\\u0000"}}',
        b'{"node_id":"n","extras":{"a":"\\ud83d"}}',
        b'{"node_id":"n","error":"text"}',
        b'{"node_id":"n","error":{"message":"m","stack":"s"}}',
        b'{"node_id":"n","files":["\\u0000"]}',
        b'{"node_id":"n","summary":"\\u0000"}',
        b'{"node_id":"n","node_version_id":"x"}',
        b'{"node_id":"n\\u0000"}',
        b"{}",
    ],
)
async def test_what_is_not_a_node_invocation_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    assert problem(await send(client, "POST", PATH, body)) == (422, "invalid_input")
    assert (await client.get(PATH)).json()["items"] == []


@pytest.mark.parametrize("name", PAYLOADS)
async def test_b01_every_output_and_action_payload_comes_back_byte_for_byte(
    client: httpx.AsyncClient, name: str
) -> None:
    payload = PAYLOADS[name]
    shown = b'"output":' + payload
    body = b'{"id":"one","node_id":"n","status":"completed","output":%s}' % payload
    made = await send(client, "POST", f"{PATH}?include=output", body)
    await start(client, id="two")
    ended = await send(client, "POST", f"{PATH}/two/end", b'{"status":"completed","output":%s}' % payload)
    assert (made.status_code, shown in made.content, ended.status_code) == (201, True, 200)
    assert shown not in ended.content
    for path in (f"{PATH}/one", f"{PATH}/two", f"{PATH}/two?include=output"):
        assert shown in (await client.get(path)).content
    for path in (f"{PATH}?include=output", "/v1/node-invocations?include=output"):
        assert (await client.get(path)).content.count(shown) == 2
    action = b'{"items":[{"id":"a","tool":"t","input":%s,"output":%s}]}' % (payload, payload)
    recorded = await send(client, "POST", f"{PATH}/one/actions?include=input,output", action)
    assert recorded.status_code == 201, recorded.text
    for answer in (recorded, await client.get(f"{PATH}/one/actions?include=input,output")):
        assert b'"input":' + payload in answer.content
        assert shown in answer.content
    assert b'"output"' not in (await client.get(f"{PATH}/one/actions")).content


async def test_lists_and_summaries_come_in_start_order(client: httpx.AsyncClient) -> None:
    for hour, node_id in ((3, "n"), (1, "o"), (2, "n")):
        await start(
            client, id=f"at{hour}", node_id=node_id, started_at=f"2026-01-05T0{hour}:00:00Z", summary=f"s{hour}"
        )
    listed = (await client.get(PATH)).json()["items"]
    assert [item["id"] for item in listed] == ["at1", "at2", "at3"]
    summaries = (await client.get("/v1/invocations/inv/summaries", params={"node_id": "n"})).json()["items"]
    assert [(item["node_id"], item["summary"]) for item in summaries] == [("n", "s2"), ("n", "s3")]
    assert set(summaries[0]) == {
        "id", "node_id", "attempt_no", "status", "started_at", "summary", "large_summary"
    }  # fmt: skip


async def test_the_search_finds_equal_ids_of_several_invocations_once_each(
    client: httpx.AsyncClient, make: Make, version: dict[str, Any]
) -> None:
    other = await make.version()
    for number in range(12):
        await make.invocation(id=f"i{number}", version_id=(other if number % 2 else version)["id"])
        for name in ("1", "11"):
            body = {"id": name, "node_id": "n", "started_at": "2026-01-05T00:00:00Z"}
            assert (await client.post(f"/v1/invocations/i{number}/nodes", json=body)).status_code == 201
    await client.post("/v1/invocations/i3/nodes/1/end", json={"status": "failed"})
    for order in ("asc", "desc"):
        seen, query = [], {"limit": 5, "order": order}
        while True:
            page = (await client.get("/v1/node-invocations", params=query)).json()
            seen += [(item["invocation_id"], item["id"]) for item in page["items"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert sorted(seen) == sorted((f"i{number}", name) for number in range(12) for name in ("1", "11"))
    for query, count in (
        ({"id": "1"}, 12),
        ({"id": ["1", "11"], "version_id": other["id"]}, 12),
        ({"status": "failed"}, 1),
        ({"node_id": ["n", "o"]}, 24),
        ({"run_id": "none"}, 0),
    ):
        listed = await client.get("/v1/node-invocations", params={**query, "limit": 100, "count": "exact"})
        assert (len(listed.json()["items"]), listed.json()["total"]) == (count, count), query
    assert problem(await client.get("/v1/node-invocations", params={"status": "queued"})) == (422, "invalid_input")


async def test_actions_are_recorded_one_or_many_in_the_order_sent(client: httpx.AsyncClient) -> None:
    await start(client, id="ni")
    path = f"{PATH}/ni/actions"
    one = {"id": "z", "tool": "search", "status": "ok", "duration_ms": 12.5, "exit_code": -1, "error": {"a": 1}}
    made = await client.post(path, json=one)
    assert made.status_code == 201
    assert made.json() == {**one, "started_at": None}
    items = [{"id": "b", "tool": "t"}, {"id": "a", "tool": "t"}, {"tool": "t"}]
    many = await client.post(path, json={"items": items})
    assert [item["id"] for item in many.json()["items"]][:2] == ["b", "a"]
    listed = (await client.get(path)).json()["items"]
    assert [item["id"] for item in listed] == ["z", *(item["id"] for item in many.json()["items"])]
    assert (await client.post(path, json={"items": [one, items[0]]})).status_code == 200
    refused = await client.post(path, json={"items": [{"id": "new", "tool": "t"}, {"id": "z", "tool": "other"}]})
    assert (problem(refused), refused.json()["ids"]) == ((409, "action_conflict"), ["z"])
    twice = await client.post(path, json={"items": [items[0], items[0]]})
    assert problem(twice) == (422, "invalid_input")
    assert len((await client.get(path, params={"limit": 2})).json()["items"]) == 2
    assert (await client.get(path, params={"count": "exact"})).json()["total"] == 4


async def test_b14_actions_with_the_same_ids_in_opposite_order_do_not_lock_each_other(
    client: httpx.AsyncClient,
) -> None:
    await start(client, id="ni")
    items = [{"id": f"a{n:03}", "tool": "t"} for n in range(200)]
    answers = await gather(
        *(client.post(f"{PATH}/ni/actions", json={"items": call}) for call in [items, items[::-1]] * 8)
    )
    assert codes(answers) == [200] * 15 + [201]


async def test_b08_a_start_under_a_key_happens_once(client: httpx.AsyncClient) -> None:
    body = json.dumps({"node_id": "n", "output": {"a": 1.0}, "status": "completed"}).encode()
    path, key = f"{PATH}?include=output", {"idempotency-key": "k"}
    answers = await gather(*(send(client, "POST", path, body, **key) for _ in range(20)))
    assert codes(answers) == [201] * 20
    assert len({answer.content for answer in answers}) == 1
    assert b'"output":{"a": 1.0}' in answers[0].content
    assert len((await client.get(PATH)).json()["items"]) == 1


async def test_another_tenant_sees_none_of_it(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    await start(client, id="ni")
    assert problem(await other.get(f"{PATH}/ni")) == (404, "node_invocation_not_found")
    assert problem(await other.post(PATH, json={"node_id": "n"})) == (404, "invocation_not_found")
    assert (await other.get("/v1/node-invocations")).json()["items"] == []
    refused = await other.post(f"{PATH}/ni/end", json={"status": "failed"})
    assert problem(refused) == (404, "node_invocation_not_found")
