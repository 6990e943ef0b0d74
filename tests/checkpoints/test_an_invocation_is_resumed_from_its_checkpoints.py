"""Checkpoints: numbered within their invocation, never overwritten, and what a worker resumes from."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import codes, problem, send

PATH = "/v1/invocations/inv/checkpoints"
STATE = b'{"b":1.0, "a":[1e400,"\\ud83d"]}'
RESUMES = ["/v1/invocations/inv/resume", f"{PATH}/resume"]


@pytest.fixture(autouse=True)
async def invocation(make: Make) -> dict[str, Any]:
    return await make.invocation(id="inv", input={"q": 1})


async def test_a_checkpoint_gets_the_next_number_or_the_one_given(client: httpx.AsyncClient, make: Make) -> None:
    for given, number in ((None, 1), (None, 2), (10, 10), (None, 11), (5, 5), (0, 0), (None, 12)):
        body = {"state": given, **({} if given is None else {"number": given})}
        made = await client.post(PATH, json=body)
        assert (made.status_code, made.json()["number"]) == (201, number), made.text
    listed = (await client.get(f"{PATH}?include=state&count=exact")).json()
    assert [item["number"] for item in listed["items"]] == [0, 1, 2, 5, 10, 11, 12]
    assert (listed["total"], listed["items"][3]["state"]) == (7, 5)
    newest = await client.get(f"{PATH}?order=desc&limit=2")
    assert [item["number"] for item in newest.json()["items"]] == [12, 11]
    following = await client.get(newest.headers["link"].partition(">")[0][1:])
    assert [item["number"] for item in following.json()["items"]] == [10, 5]
    other = await make.invocation(id="other")
    assert (await make.created(f"/v1/invocations/{other['id']}/checkpoints", state=1))["number"] == 1


async def test_a_number_holds_what_came_first(client: httpx.AsyncClient) -> None:
    body = b'{"number":3,"node_id":"n","state":%b}'
    made = await send(client, "POST", PATH, body % STATE)
    again = await send(client, "POST", PATH, body % STATE)
    assert (made.status_code, again.status_code, again.content) == (201, 200, made.content)
    for other in (body % b'{"b":1.0,"a":[1e400,"\\ud83d"]}', body.replace(b'"n"', b'"m"') % STATE):
        refused = await send(client, "POST", PATH, other)
        assert (problem(refused), refused.json()["number"]) == ((409, "checkpoint_conflict"), 3)
    shown = await client.get(f"{PATH}/3")
    assert b'"state":' + STATE in shown.content
    assert "state" not in (await client.get(f"{PATH}/3?include=")).json()
    # The number that the service gave may be sent the next time.
    first = await client.post(PATH, json={"state": 1})
    assert (await client.post(PATH, json={"state": 1, "number": first.json()["number"]})).status_code == 200


async def test_many_writers_at_once_get_a_number_each(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(PATH, json={"state": n}) for n in range(50)))
    assert codes(answers) == [201] * 50
    assert sorted(answer.json()["number"] for answer in answers) == list(range(1, 51))
    same = await gather(*(client.post(PATH, json={"number": 60, "state": "s"}) for _ in range(10)))
    assert codes(same) == [200] * 9 + [201]


async def test_the_latest_is_that_of_the_greatest_number(client: httpx.AsyncClient) -> None:
    assert problem(await client.get(f"{PATH}/latest")) == (404, "checkpoint_not_found")
    for number, node in ((2, "a"), (4, "b"), (3, "a")):
        await client.post(PATH, json={"number": number, "node_id": node, "state": number})
    for query, number in (("", 4), ("?node_id=a", 3), ("?node_id=b", 4)):
        assert (await client.get(f"{PATH}/latest{query}")).json()["state"] == number
    assert problem(await client.get(f"{PATH}/latest?node_id=c")) == (404, "checkpoint_not_found")
    assert [item["number"] for item in (await client.get(f"{PATH}?node_id=a")).json()["items"]] == [2, 3]


@pytest.mark.parametrize("number", ["7", "x", "-1", "1.0", "99999999999999999999", "007", "1 "])
async def test_a_number_that_is_not_there_is_not_found(client: httpx.AsyncClient, number: str) -> None:
    assert problem(await client.get(f"{PATH}/{number}")) == (404, "checkpoint_not_found")


async def test_what_no_checkpoint_can_be_is_refused(client: httpx.AsyncClient) -> None:
    for body in ({}, {"state": 1, "number": -1}, {"state": 1, "number": 2**53}, {"state": 1, "number": "1"}):
        assert problem(await client.post(PATH, json=body)) == (422, "invalid_input")
    assert (await client.post(PATH, json={"state": 1, "number": 2**53 - 1})).status_code == 201
    assert problem(await client.post(PATH, json={"state": 1})) == (409, "checkpoint_conflict")


async def test_without_an_invocation_there_is_nothing(client: httpx.AsyncClient) -> None:
    path = "/v1/invocations/absent"
    for answer in (
        await client.post(f"{path}/checkpoints", json={"state": 1}),
        await client.get(f"{path}/checkpoints"),
        await client.get(f"{path}/checkpoints/latest"),
        await client.get(f"{path}/checkpoints/1"),
        await client.post(f"{path}/resume"),
        await client.post(f"{path}/checkpoints/resume"),
    ):
        assert problem(answer) == (404, "invocation_not_found")


@pytest.mark.parametrize("resume", RESUMES)
async def test_resuming_says_what_is_done_and_where_it_stood(
    client: httpx.AsyncClient, make: Make, resume: str
) -> None:
    nodes = "/v1/invocations/inv/nodes"
    for name in ("done", "broken", "open"):
        await make.created(nodes, id=name, node_id="n")
    await client.post(f"{nodes}/done/end", json={"status": "completed", "output": 1})
    await client.post(f"{nodes}/broken/end", json={"status": "failed"})
    for body in (b'{"state":1}', b'{"node_id":"n","state":%b}' % STATE):
        assert (await send(client, "POST", PATH, body)).status_code == 201
    before = await client.get("/v1/invocations/inv")
    answer = await client.post(f"{resume}?include=state")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert b'"state":' + STATE in answer.content
    assert (found["checkpoint"]["number"], found["checkpoint"]["node_id"]) == (2, "n")
    assert [node["id"] for node in found["completed_nodes"]] == ["done"]
    assert [node["id"] for node in found["running_nodes"]] == ["open"]
    assert [node["id"] for node in found["failed_nodes"]] == ["broken"]
    assert found["node_counts"] == {"completed": 1, "running": 1, "failed": 1}
    assert found["invocation"]["heartbeat_at"] is not None
    assert (answer.headers["etag"], found["invocation"]["status"]) == (before.headers["etag"], "running")
    assert found["invocation"]["updated_at"] == before.json()["updated_at"]
    bare = await client.post(resume)
    assert "state" not in bare.json()["checkpoint"]


async def test_resuming_without_checkpoints_starts_from_nothing(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version()
    await make.invocation(id="queued", version_id=version["id"], status="queued")
    found = (await client.post("/v1/invocations/queued/resume?include=state")).json()
    assert (found["invocation"]["status"], found["checkpoint"]) == ("running", None)
    assert found["invocation"]["started_at"] is not None
    assert [found[f"{status}_nodes"] for status in ("completed", "running", "failed")] == [[], [], []]


async def test_what_has_ended_is_not_resumed(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/invocations/inv/resume", headers={"if-match": '"99"'})
    assert problem(refused) == (412, "precondition_failed")
    await client.post("/v1/invocations/inv/end", json={"status": "failed"})
    for path in RESUMES:
        refused = await client.post(path)
        assert (problem(refused), refused.json()["current_status"]) == ((409, "invocation_ended"), "failed")
    # What a worker still had to say is kept all the same.
    assert (await client.post(PATH, json={"state": 1})).status_code == 201


async def test_a_fenced_write_of_another_attempt_is_refused(client: httpx.AsyncClient) -> None:
    for path, body in ((PATH, {"state": 1}), *((path, None) for path in RESUMES)):
        answer = await client.post(path, json=body, headers={"submission-attempt": "sub;att"})
        assert problem(answer) == (409, "stale_attempt")
    assert (await client.get(PATH)).json()["items"] == []
    assert (await client.get("/v1/invocations/inv")).json()["heartbeat_at"] is None


async def test_a_resumption_is_replayed_with_its_state_but_keeps_no_copy_of_it(
    client: httpx.AsyncClient, service: Service
) -> None:
    await send(client, "POST", PATH, b'{"state":%b}' % STATE)
    path = f"{RESUMES[0]}?include=state"
    first, again = [await client.post(path, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert (again.headers["idempotency-replayed"], again.content) == ("true", first.content)
    assert b'"state":' + STATE in first.content
    operations = [{"method": "POST", "path": path}, {"method": "GET", "path": f"{PATH}/latest"}]
    together = await client.post("/v1/batch", json={"operations": operations}, headers={"idempotency-key": "b"})
    assert together.content.count(b'"state":' + STATE) == 2
    async with service.ground.database.reading() as reader:
        kept = await reader.connection.fetchval(
            "SELECT count(*) FROM idempotency_keys WHERE tenant_id = $1 AND strpos(body::text, '1e400') > 0",
            client.headers["x-test-tenant"],
        )
    assert kept == 0
    await drain(sequencer(lambda _waited: None), service.ground.database)
    types = [event["type"] for event in (await client.get("/v1/events?type=invocation.resumed")).json()["items"]]
    assert types == ["invocation.resumed"] * 2


async def test_checkpoints_go_with_their_invocation(client: httpx.AsyncClient, make: Make, service: Service) -> None:
    await make.created(PATH, state=1)
    await client.post("/v1/invocations/inv/end", json={"status": "completed"})
    assert (await client.delete("/v1/invocations/inv")).status_code == 204
    async with service.ground.database.reading() as reader:
        left = await reader.connection.fetchval(
            "SELECT count(*) FROM checkpoints WHERE tenant_id = $1", client.headers["x-test-tenant"]
        )
    assert left == 0
