"""Leases that lapse: back to the queue with a pause, or failed with the reason and a dead letter; held rows stay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.bus.hints import EmbeddedHints, Key
from app.http.service import Service
from app.settings import QueueSettings
from app.submissions.jobs import expiry
from app.submissions.watching import key_of
from tests.conftest import Make, running, settings_for
from tests.payloads import problem
from tests.submissions.queue import PATH, claim_next, events, expire, ids, pass_time, rows, tenant


@pytest.fixture(scope="module")
async def service(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A service where nobody else's leases lapse."""
    async with running(settings_for(await kept_clone())) as started:
        yield started


async def lapsed(service: Service, client: httpx.AsyncClient, **settings: float) -> int:
    """Let every lease of the tenant lapse, and run the job."""
    await pass_time(service, client, "lease_lapses_at")
    return await expire(service, **{"backoff_first_seconds": 0, **settings})


async def shown(client: httpx.AsyncClient, submission_id: str) -> dict[str, Any]:
    answer = await client.get(f"{PATH}/{submission_id}", params={"include": ""})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def letters(service: Service, client: httpx.AsyncClient) -> list[Any]:
    return await rows(
        service,
        "SELECT subject, source, reason, attempts, last_error FROM dead_letters WHERE tenant_id = :tenant_id",
        tenant_id=tenant(client),
    )


async def test_what_lapsed_is_claimed_again_under_another_attempt(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a")
    (first,) = await claim_next(client)
    assert await expire(service) == 0
    assert await lapsed(service, client) == 1
    queued = await shown(client, "a")
    assert (queued["status"], queued["attempt_id"], queued["attempt_count"]) == ("queued", None, 1)
    assert queued["timeout_at"] == first["timeout_at"]
    assert await events(service, client, "a") == {
        "submission.admitted": 1, "submission.claimed": 1, "submission.requeued": 1,
    }  # fmt: skip
    (second,) = await claim_next(client)
    assert second["attempt_count"] == 2
    assert second["attempt_id"] != first["attempt_id"]
    assert second["timeout_at"] == first["timeout_at"]


async def test_b12_what_kills_its_worker_is_given_up_after_its_attempts(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="poison", session_key="k", max_attempts=3)
    await make.submission(id="next", session_key="k")
    for _ in range(3):
        assert await ids(client) == ["poison"]
        assert await lapsed(service, client) == 1
    dead = await shown(client, "poison")
    assert (dead["status"], dead["outcome"], dead["attempt_count"]) == ("settled", "failed", 3)
    assert dead["error"] == "The lease of attempt 3 lapsed without an answer. No attempt is left of 3."
    assert [tuple(row) for row in await letters(service, client)] == [
        ("poison", "submission", "attempts_exhausted", 3, dead["error"])
    ]
    found = await events(service, client, "poison")
    assert (found["submission.requeued"], found["submission.settled"], found["submission.dead"]) == (2, 1, 1)
    assert await ids(client) == ["next"]


async def test_what_has_no_time_left_is_given_up(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", timeout_seconds=60)
    await ids(client)
    await pass_time(service, client, "timeout_at")
    await lapsed(service, client)
    dead = await shown(client, "a")
    assert (dead["outcome"], dead["error"]) == (
        "failed", "The lease of attempt 1 lapsed without an answer. No time is left: its timeout_at has passed.",
    )  # fmt: skip
    assert [row["reason"] for row in await letters(service, client)] == ["time_exhausted"]


async def test_the_pause_doubles_with_each_attempt_up_to_the_longest(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a")
    for longest in (100, 200, 400, 500, 500):
        assert await ids(client) == ["a"]
        await lapsed(service, client, backoff_first_seconds=100, backoff_longest_seconds=500)
        queued = await shown(client, "a")
        assert await ids(client) == []
        pause = datetime.fromisoformat(queued["not_before"]) - datetime.fromisoformat(queued["updated_at"])
        assert longest / 2 - 1 < pause.total_seconds() < longest + 1
        await pass_time(service, client, "not_before")


@pytest.mark.parametrize("max_attempts", [1, 2])
async def test_a_held_submission_is_shown_as_expired_and_never_touched(
    service: Service, client: httpx.AsyncClient, make: Make, max_attempts: int
) -> None:
    await make.submission(id="a", on_lapse="hold", max_attempts=max_attempts)
    await ids(client)
    before = await client.get(f"{PATH}/a")
    assert await lapsed(service, client) == 0
    after = await client.get(f"{PATH}/a")
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
    listed = await client.get(PATH, params={"view": "expired"})
    assert [item["id"] for item in listed.json()["items"]] == ["a"]
    renewed = {"owner_id": "w", "submission_ids": ["a"], "lease_seconds": 30}
    assert (await client.post(f"{PATH}/renew-leases", json=renewed)).json()["renewed"] == ["a"]
    assert (await client.get(PATH, params={"view": "expired"})).json()["items"] == []


async def test_a_renewed_lease_does_not_lapse(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a")
    await ids(client)
    await pass_time(service, client, "lease_lapses_at")
    body = {"owner_id": "w", "submission_ids": ["a"], "lease_seconds": 30}
    await client.post(f"{PATH}/renew-leases", json=body)
    assert await expire(service) == 0
    assert (await shown(client, "a"))["status"] == "running"


async def test_a_pause_blocks_the_session_and_not_another(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a", session_key="k")
    await make.submission(id="b", session_key="k")
    await ids(client)
    await lapsed(service, client, backoff_first_seconds=100)
    await make.submission(id="c")
    assert await ids(client) == ["c"]
    refused = await client.post(f"{PATH}/b/claim", json={"attempt_id": "t", "owner_id": "w", "lease_seconds": 1})
    assert problem(refused) == (409, "not_head_of_session")


async def test_whoever_waits_is_told_of_what_can_be_claimed_again(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a", agent="one")
    await ids(client)
    await pass_time(service, client, "lease_lapses_at")
    heard: list[Key | None] = []
    hints = EmbeddedHints()
    hints.listen(heard.append)
    await drain(expiry(QueueSettings(backoff_first_seconds=0), hints), service.ground.database)
    assert set(heard) == {key_of(tenant(client), name) for name in ("one", None)}


async def test_a_row_that_queues_without_an_attempt_left_cannot_be(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a", max_attempts=1)
    with pytest.raises(Exception, match="failed"):
        await rows(
            service, "UPDATE submissions SET attempt_count = 1 WHERE tenant_id = :tenant_id", tenant_id=tenant(client)
        )
