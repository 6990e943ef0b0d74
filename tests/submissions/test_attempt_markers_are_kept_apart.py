"""Marks that an attempt was begun."""

from __future__ import annotations

import httpx

from tests.payloads import problem

NOW = "2026-01-05T10:00:00.000000Z"


async def test_markers_are_kept_apart_from_submissions(client: httpx.AsyncClient) -> None:
    path = "/v1/attempt-markers"
    marks = [{"submission_id": "a", "attempt_id": name} for name in ("2", "1")] + [
        {"submission_id": "b/ #", "attempt_id": "1"}
    ]
    made = [await client.put(path, params=mark) for mark in marks]
    assert [answer.status_code for answer in made] == [201, 201, 201]
    again = await client.put(path, params=marks[0])
    assert (again.status_code, again.content) == (200, made[0].content)
    assert (await client.get(path)).json()["items"] == [answer.json() for answer in made]
    assert (await client.get(path, params={"submission_id": "b/ #"})).json()["items"] == [made[2].json()]
    for _ in range(2):
        assert (await client.delete(path, params=marks[1])).status_code == 204
    assert [item["attempt_id"] for item in (await client.get(path)).json()["items"]] == ["2", "1"]
    assert problem(await client.put(path, params={"submission_id": "a"})) == (422, "invalid_input")
