"""What was given up, with its reason, the latest first."""

from __future__ import annotations

import httpx

from app.http.service import Service
from tests.deadletters.letters import given_up
from tests.payloads import problem
from tests.submissions.calls import Calls
from tests.submissions.queue import pass_time


async def test_letters_are_listed_by_source_subject_and_reason(service: Service, client: httpx.AsyncClient) -> None:
    calls = Calls(client)
    first = await given_up(client, "a")
    await calls.running("b", session="b")
    await pass_time(service, client, "timeout_at")
    await calls.done("b/requeue", attempt_id="at")

    async def listed(query: str) -> list[str]:
        return [letter["subject"] for letter in (await client.get(f"/v1/dead-letters{query}")).json()["items"]]

    assert await listed("") == ["b", "a"]
    assert await listed("?order=asc") == ["a", "b"]
    assert await listed("?source=submission") == ["b", "a"]
    assert await listed("?source=webhook") == []
    assert await listed("?subject=a") == ["a"]
    assert await listed("?reason=time_exhausted") == ["b"]
    assert first == {
        "id": first["id"], "source": "submission", "subject": "a", "reason": "attempts_exhausted", "attempts": 1,
        "last_error": "It broke. No attempt is left of 1.", "created_at": first["created_at"],
    }  # fmt: skip
    assert (await client.get(f"/v1/dead-letters/{first['id']}")).json() == first
    assert await listed(f"?created_before={first['created_at']}") == []
    assert await listed(f"?created_after={first['created_at']}") == ["b", "a"]


async def test_a_letter_that_is_not_there_and_a_source_that_is_none(client: httpx.AsyncClient) -> None:
    assert problem(await client.get("/v1/dead-letters/absent")) == (404, "dead_letter_not_found")
    assert problem(await client.get("/v1/dead-letters?source=mail")) == (422, "invalid_input")
