"""Invocations: create, start, heartbeat, end, cancel, change, delete."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from tests.conftest import Make

RESULTS = (
    b'{"status":"completed","output":{"b":1.0,"a":[1e400,"\\u0000","\\ud83d"]},"usd_cost":0.012300000000000000001}'
)


async def send(client: httpx.AsyncClient, path: str, content: bytes, **headers: str) -> httpx.Response:
    return await client.post(path, content=content, headers={"content-type": "application/json", **headers})


async def test_fifty_parallel_creates_with_one_id_make_one_row(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version()
    body = {"id": "inv", "version_id": version["id"], "input": {"q": 1.0}, "metadata": {"a": 1}}
    answers = await gather(*(client.post("/v1/invocations", json=body) for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert len({answer.content for answer in answers}) == 1
    listed = await client.get("/v1/invocations", params={"count": "exact"})
    assert listed.json()["total"] == 1


async def test_the_first_terminal_state_wins_and_its_exact_repeat_answers_again(
    client: httpx.AsyncClient, make: Make
) -> None:
    made = await make.invocation(id="inv")
    ended = await send(client, "/v1/invocations/inv/end", RESULTS)
    again = await send(client, "/v1/invocations/inv/end", RESULTS)
    other = await client.post("/v1/invocations/inv/end", json={"status": "failed"})
    assert [ended.status_code, again.status_code, other.status_code] == [200, 200, 409]
    assert (other.json()["code"], other.json()["current_status"]) == ("invocation_ended", "completed")
    assert ended.content == again.content
    assert b'"usd_cost":0.0123,' in ended.content
    assert "output" not in ended.json()
    shown = await client.get("/v1/invocations/inv?include=output")
    assert b'"output":{"b":1.0,"a":[1e400,"\\u0000","\\ud83d"]}' in shown.content
    assert made["status"] == "running"


async def test_of_many_ends_at_once_exactly_one_wins(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="inv")
    answers = await gather(
        *(client.post("/v1/invocations/inv/end", json={"status": "failed", "feedback": str(n)}) for n in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19


async def test_after_the_end_results_may_change_and_links_may_not(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="inv")
    await client.post("/v1/invocations/inv/end", json={"status": "completed", "fitness_score": 0.5})
    changed = await client.patch("/v1/invocations/inv", json={"fitness_score": 0.75, "metadata": {"seen": True}})
    assert (changed.status_code, changed.json()["fitness_score"]) == (200, 0.75)
    frozen = await client.patch("/v1/invocations/inv", json={"session_id": "s", "feedback": "late"})
    assert (frozen.status_code, frozen.json()["frozen_fields"]) == (409, ["session_id"])
    assert (await client.get("/v1/invocations/inv")).json()["feedback"] is None


async def test_a_queued_invocation_is_started_once_and_cancelled_at_once(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version()
    for name in ("a", "b"):
        await make.invocation(id=name, version_id=version["id"], status="queued")
    early = await client.post("/v1/invocations/a/heartbeat")
    too_early = await client.post("/v1/invocations/a/end", json={"status": "completed"})
    assert [early.status_code, too_early.status_code] == [409, 409]
    assert too_early.json()["code"] == "invocation_not_started"
    started = await client.post("/v1/invocations/a/start")
    again = await client.post("/v1/invocations/a/start")
    assert started.json() == again.json()
    assert started.json()["status"] == "running"
    cancelled = await client.post("/v1/invocations/b/cancel")
    assert cancelled.json()["status"] == "cancelled"
    assert (await client.post("/v1/invocations/b/start")).status_code == 409


async def test_a_running_invocation_is_asked_to_stop_and_its_heartbeat_shows_it(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="inv")
    asked = await client.post("/v1/invocations/inv/cancel", json={})
    assert (asked.json()["status"], asked.json()["ended_at"]) == ("running", None)
    beat = await client.post("/v1/invocations/inv/heartbeat")
    assert beat.json()["cancel_requested_at"] == asked.json()["cancel_requested_at"]
    assert beat.headers["etag"] == asked.headers["etag"]
    forced = await client.post("/v1/invocations/inv/cancel", json={"force": True})
    assert forced.json()["status"] == "cancelled"
    assert (await client.post("/v1/invocations/inv/cancel", json={})).status_code == 200
    assert (await client.post("/v1/invocations/inv/heartbeat")).json()["code"] == "invocation_ended"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("usd_cost", True),
        ("usd_cost", "1e30"),
        ("fitness_score", "0.5"),
        ("fitness_score", False),
        ("started_at", "2026-01-01T00:00:00"),
        ("started_at", "9999-12-31T23:59:59-12:00"),
        ("started_at", "0001-01-01T00:00:00+14:00"),
        ("started_at", 1767225600000),
        ("started_at", "infinity"),
        ("status", "completed"),
        ("feedback", "a\x00b"),
        ("session_id", ""),
        ("session_id", "é" * 128),
        ("metadata", [1]),
        ("metadata", {"a": "\x00"}),
        ("unknown", 1),
    ],
)
async def test_b04_unacceptable_values_are_named(client: httpx.AsyncClient, make: Make, field: str, value: Any) -> None:
    version = await make.version()
    answer = await client.post("/v1/invocations", json={"version_id": version["id"], field: value})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == f"/{field}"


async def test_links_to_what_is_not_there_are_named(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for field, code in (
        ("version_id", "version_not_found"),
        ("parent_invocation_id", "invocation_not_found"),
        ("run_id", "reference_not_found"),
        ("generation_id", "reference_not_found"),
        ("dataset_record_id", "dataset_record_not_found"),
        ("evaluator_id", "reference_not_found"),
    ):
        answer = await client.post("/v1/invocations", json={"version_id": version, field: "missing"})
        assert (answer.status_code, answer.json()["code"]) == (404, code)


async def test_money_keeps_every_digit_and_is_summed_exactly(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for number in range(10):
        body = b'{"version_id":"%s","usd_cost":0.1,"id":"i%d"}' % (version.encode(), number)
        assert (await send(client, "/v1/invocations", body)).status_code == 201
    summary = await client.get("/v1/invocations/summary", params={"version_id": version})
    assert b'"sum" : 1.0' in summary.content or b'"sum" : 1,' in summary.content
    exact = b'{"version_id":"%s","usd_cost":12345678901234567890.123456789012345678,"id":"big"}' % version.encode()
    assert (
        b'"usd_cost":12345678901234567890.123456789012345678,' in (await send(client, "/v1/invocations", exact)).content
    )


async def test_deleting_takes_the_record_with_it_and_refuses_what_is_in_use(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    await make.invocation(id="parent", version_id=version)
    await make.invocation(id="child", version_id=version, parent_invocation_id="parent")
    assert (await client.delete("/v1/invocations/parent")).json()["code"] == "invocation_in_use"
    for name in ("child", "parent"):
        await client.post(f"/v1/invocations/{name}/end", json={"status": "completed"})
        assert (await client.delete(f"/v1/invocations/{name}")).status_code == 204
    assert (await client.get("/v1/invocations/parent")).status_code == 404


async def test_lists_filter_sort_and_put_nulls_last_in_both_orders(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    scores = [0.3, None, 0.1, 0.2, None]
    for number, score in enumerate(scores):
        await make.invocation(id=f"i{number}", version_id=version, fitness_score=score, metadata={"n": number})
    for order, expected in (("asc", ["i2", "i3", "i0", "i1", "i4"]), ("desc", ["i0", "i3", "i2", "i4", "i1"])):
        for limit in (1, 2, 3, 5):
            seen, cursor = [], None
            while True:
                params = {"sort": "fitness_score", "order": order, "limit": limit} | (
                    {"cursor": cursor} if cursor else {}
                )
                found = (await client.get("/v1/invocations", params=params)).json()
                seen += [item["id"] for item in found["items"]]
                cursor = found["next_cursor"]
                if cursor is None:
                    break
            assert seen == expected
    only = await client.get("/v1/invocations", params={"metadata": '{"n":3}', "status": ["running", "failed"]})
    assert [item["id"] for item in only.json()["items"]] == ["i3"]
    narrowed = await client.get("/v1/invocations?min_fitness_score=0.15&max_fitness_score=0.25&status=running")
    assert [item["id"] for item in narrowed.json()["items"]] == ["i3"]
