"""B09, B10: many writers of one row, each with a clean outcome; and no version that descends from itself."""

from __future__ import annotations

from asyncio import gather
from collections import Counter

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make


def outcomes(answers: list[httpx.Response]) -> Counter[int]:
    """How often each status came."""
    return Counter(answer.status_code for answer in answers)


async def events(service: Service, client: httpx.AsyncClient, subject_id: str) -> Counter[str]:
    """The events of a subject, by type, whether they have their position yet or not."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        rows = await connection.fetch(
            "SELECT type FROM (SELECT tenant_id, subject_id, type FROM outbox"
            " UNION ALL SELECT tenant_id, subject_id, type FROM events) AS written"
            " WHERE tenant_id = $1 AND subject_id = $2",
            client.headers["x-test-tenant"], subject_id,
        )  # fmt: skip
    finally:
        await connection.close()
    return Counter(row["type"] for row in rows)


async def test_b09_thirty_that_ensure_one_workflow_make_one(service: Service, client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.put("/v1/workflows/w", json={"name": "n"}) for _ in range(30)))
    assert outcomes(answers) == {201: 1, 200: 29}
    assert {answer.headers["etag"] for answer in answers} == {'"1"'}
    assert await events(service, client, "w") == {"workflow.created": 1}


async def test_b09_thirty_different_changes_each_have_a_revision(service: Service, client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.put("/v1/workflows/w", json={"name": str(number)}) for number in range(30)))
    assert outcomes(answers) == {201: 1, 200: 29}
    assert {answer.headers["etag"] for answer in answers} == {f'"{number}"' for number in range(1, 31)}
    assert await events(service, client, "w") == {"workflow.created": 1, "workflow.updated": 29}


async def test_b09_of_many_changes_under_one_etag_one_happens(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    answers = await gather(
        *(client.patch("/v1/workflows/w", json={"name": str(n)}, headers={"if-match": '"1"'}) for n in range(20))
    )
    assert outcomes(answers) == {200: 1, 412: 19}
    (won,) = (answer for answer in answers if answer.status_code == 200)
    assert (await client.get("/v1/workflows/w")).json() == won.json()


async def test_b09_of_every_kind_of_end_at_once_one_wins(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="i")
    path = "/v1/invocations/i"
    answers = await gather(
        *(client.post(f"{path}/end", json={"status": "completed", "fitness_score": n / 10}) for n in range(6)),
        *(client.post(f"{path}/end", json={"status": "failed"}) for _ in range(3)),
        *(client.post(f"{path}/cancel", json={"force": True}) for _ in range(3)),
        *(client.post(f"{path}/heartbeat") for _ in range(3)),
    )
    assert set(outcomes(answers)) <= {200, 409}
    shown = (await client.get(path)).json()
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["current_status"] == shown["status"]
    ends = [answer.json() for answer in answers if answer.is_success and answer.json()["ended_at"]]
    assert {end["ended_at"] for end in ends} == {shown["ended_at"]}
    assert (await events(service, client, "i"))["invocation.ended"] == 1


async def test_b09_a_queued_invocation_starts_once(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="i", status="queued")
    answers = await gather(*(client.post("/v1/invocations/i/start", json={}) for _ in range(20)))
    assert outcomes(answers) == {200: 20}
    assert len({answer.json()["started_at"] for answer in answers}) == 1
    assert (await events(service, client, "i"))["invocation.started"] == 1


@pytest.mark.parametrize("turn", range(5))
async def test_b09_a_workflow_is_never_deleted_under_its_new_version(
    client: httpx.AsyncClient, make: Make, turn: int
) -> None:
    await make.workflow(id="w")
    deleted, made = await gather(
        client.delete("/v1/workflows/w"), client.post("/v1/workflows/w/versions", json={"dsl": turn})
    )
    assert (deleted.status_code, made.status_code) in ((204, 404), (409, 201)), (deleted.text, made.text)
    assert len((await client.get("/v1/versions")).json()["items"]) == (made.status_code == 201)


async def test_b09_of_many_that_delete_one_row_one_does(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    answers = await gather(*(client.delete("/v1/workflows/w") for _ in range(10)))
    assert outcomes(answers) == {204: 1, 404: 9}


async def test_b10_no_version_descends_from_itself(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    path = "/v1/workflows/w/versions"
    own = {"id": "a", "dsl": 1, "operation": "mutation", "parent1_id": "a"}
    first = await client.post(path, json=own)
    assert first.status_code in (404, 422), first.text
    await make.version("w", id="a")
    await make.version("w", id="b", operation="mutation", parent1_id="a")
    again = await client.post(path, json={"id": "a", "dsl": 2, "operation": "mutation", "parent1_id": "b"})
    assert (again.status_code, again.json()["code"]) == (409, "version_conflict")
    assert (await client.patch("/v1/versions/a", json={"parent1_id": "b"})).status_code == 405
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("UPDATE versions SET parent1_id = id, operation = 'mutation' WHERE id = 'a'")
    finally:
        await connection.close()


async def test_b10_versions_that_name_each_other_cannot_both_be_made(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    answers = await gather(
        *(
            client.post(
                "/v1/workflows/w/versions", json={"id": one, "dsl": 1, "operation": "mutation", "parent1_id": two}
            )
            for one, two in (("a", "b"), ("b", "a"))
        )
    )
    assert outcomes(answers) == {404: 2}
