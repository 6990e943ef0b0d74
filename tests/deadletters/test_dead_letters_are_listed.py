"""What was given up, with its reason, the latest first."""

from __future__ import annotations

import httpx

from app.http.service import Service
from tests.deadletters.letters import bury_at
from tests.payloads import problem


async def test_letters_are_listed_by_source_subject_and_reason(service: Service, client: httpx.AsyncClient) -> None:
    for name, fields in (
        ("a", {"subject": "sub_1", "last_error": "it broke"}),
        ("b", {"subject": "sub_2", "reason": "timeout"}),
        ("c", {"subject": "hook_1", "source": "webhook", "reason": "exhausted"}),
    ):
        await bury_at(service.ground.database.url, client.headers["x-test-tenant"], name, **fields)

    async def listed(query: str) -> list[str]:
        return [letter["id"] for letter in (await client.get(f"/v1/dead-letters{query}")).json()["items"]]

    assert await listed("") == ["c", "b", "a"]
    assert await listed("?order=asc") == ["a", "b", "c"]
    assert await listed("?source=submission") == ["b", "a"]
    assert await listed("?source=webhook") == ["c"]
    assert await listed("?subject=sub_1") == ["a"]
    assert await listed("?reason=timeout") == ["b"]
    first = (await client.get("/v1/dead-letters/a")).json()
    assert first == {
        "id": "a", "source": "submission", "subject": "sub_1", "reason": "max_attempts", "attempts": 10,
        "last_error": "it broke", "created_at": first["created_at"],
    }  # fmt: skip
    assert await listed(f"?created_before={first['created_at']}") == []
    assert await listed(f"?created_after={first['created_at']}") == ["c", "b", "a"]


async def test_a_letter_that_is_not_there_and_a_source_that_is_none(client: httpx.AsyncClient) -> None:
    assert problem(await client.get("/v1/dead-letters/absent")) == (404, "dead_letter_not_found")
    assert problem(await client.get("/v1/dead-letters?source=mail")) == (422, "invalid_input")
