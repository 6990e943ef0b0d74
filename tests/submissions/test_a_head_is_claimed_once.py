"""Readiness and claims: who may claim what, the lease as told and as judged, and every refusal with its facts."""

from __future__ import annotations

from asyncio import gather
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import codes, problem

PATH = "/v1/submissions"
LEASE = {"owner_id": "w", "lease_seconds": 30}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def claim(client: httpx.AsyncClient, submission_id: str, attempt_id: str = "t", **more: Any) -> httpx.Response:
    body = {"attempt_id": attempt_id, **(more or LEASE)}
    return await client.post(f"{PATH}/{submission_id}/claim", json={"owner_id": "w", **body})


async def test_what_is_not_ready_is_not_claimed_and_blocks_its_session(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", session_key="k", ready=False)
    await make.submission(id="b", session_key="k")
    assert problem(await claim(client, "a")) == (409, "not_ready")
    assert problem(await claim(client, "b")) == (409, "not_head_of_session")
    made = await client.post(f"{PATH}/a/ready")
    again = await client.post(f"{PATH}/a/ready", json={})
    assert made.status_code == again.status_code == 200
    assert made.json()["canonical_ready_at"] == again.json()["canonical_ready_at"]
    assert made.headers["etag"] == again.headers["etag"] == '"2"'
    claimed = await claim(client, "a")
    assert claimed.json()["canonical_ready_at"] == made.json()["canonical_ready_at"]
    assert problem(await client.post(f"{PATH}/a/ready")) == (409, "already_running")
    assert problem(await client.post(f"{PATH}/x/ready")) == (404, "submission_not_found")


async def test_a_claim_shows_what_it_has_set(client: httpx.AsyncClient, make: Make) -> None:
    made = await make.submission(id="a", timeout_seconds=60)
    claimed = await claim(client, "a")
    assert (claimed.status_code, claimed.headers["etag"]) == (200, '"2"')
    shown = claimed.json()
    assert shown == {
        **made,
        "status": "running",
        "attempt_id": "t",
        "owner_id": "w",
        "attempt_count": 1,
        **{name: shown[name] for name in ("started_at", "lease_expires_at", "timeout_at", "updated_at")},
    }
    assert at(shown["timeout_at"]) - at(shown["started_at"]) < timedelta(seconds=60.1)
    assert timedelta(seconds=29.9) < at(shown["lease_expires_at"]) - at(shown["started_at"]) < timedelta(seconds=30.1)


async def test_of_fifty_claimers_one_wins(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a")
    answers = await gather(*(claim(client, "a", f"t{n}") for n in range(50)))
    assert codes(answers) == [200] + [409] * 49
    (won,) = (answer.json() for answer in answers if answer.is_success)
    for answer in answers:
        if not answer.is_success:
            assert problem(answer) == (409, "already_running")
            assert answer.json()["attempt_id"] == won["attempt_id"]
            assert answer.json()["current_status"] == "running"


async def test_a_claim_repeated_under_its_key_is_replayed_and_without_it_refused(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a")
    body = {"attempt_id": "t", **LEASE}
    first, again = [await client.post(f"{PATH}/a/claim", json=body, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert (again.status_code, again.content) == (200, first.content)
    assert problem(await client.post(f"{PATH}/a/claim", json=body)) == (409, "already_running")


async def test_an_absolute_lease_is_echoed_exactly_and_judged_by_the_service(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    now = datetime(2031, 5, 6, 7, 8, 9, 123000, UTC)
    for name, expires_at in (("past", datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)), ("future", now + timedelta(days=1))):
        await make.submission(id=name)
        told = expires_at.isoformat().replace("+00:00", "Z")
        answer = await claim(client, name, lease_expires_at=told, client_time=now.isoformat())
        assert at(answer.json()["lease_expires_at"]) == expires_at
        assert at(answer.json()["timeout_at"]) == now + timedelta(hours=1)
    rows = await service.ground.database.rows(
        Statement(
            "SELECT id, lease_lapses_at - clock_timestamp() AS left FROM submissions"
            " WHERE tenant_id = :tenant_id ORDER BY id"
        ),
        tenant_id=client.headers["x-test-tenant"],
    )
    left = {row["id"]: row["left"] for row in rows}
    assert timedelta(hours=23.9) < left["future"] <= timedelta(days=1)
    assert left["past"] < timedelta(0)


async def test_with_its_own_time_a_caller_is_told_the_lease_by_its_own_clock(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.submission(id="a")
    answer = await claim(client, "a", lease_seconds=30, client_time="2031-01-01T00:00:00Z")
    assert answer.json()["lease_expires_at"] == "2031-01-01T00:00:30.000000Z"


@pytest.mark.parametrize(
    ("lease", "pointer"),
    [
        ({"client_time": "2026-01-01T00:00:00Z"}, "/lease_seconds"),
        ({"lease_expires_at": "2026-01-01T00:00:00Z"}, "/client_time"),
        ({"lease_expires_at": "1970-01-01T00:00:00Z", "client_time": "9000-01-01T00:00:00Z"}, "/lease_expires_at"),
        (
            {"lease_seconds": 1, "lease_expires_at": "2026-01-01T00:00:00Z", "client_time": "2026-01-01T00:00:00Z"},
            "/lease_expires_at",
        ),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"lease_seconds": 30, "client_time": "9999-01-01T00:00:00Z"}, "/client_time"),
    ],
)
async def test_a_lease_is_given_in_one_way(
    client: httpx.AsyncClient, make: Make, lease: dict[str, Any], pointer: str
) -> None:
    await make.submission(id="a")
    answer = await claim(client, "a", **lease)
    assert problem(answer) == (422, "invalid_input")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_what_is_not_due_is_not_claimed_and_blocks_its_session(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", session_key="k", not_before="2999-01-01T00:00:00Z")
    await make.submission(id="b", session_key="k")
    refused = await claim(client, "a")
    assert problem(refused) == (409, "not_due")
    assert refused.json()["not_before"] == "2999-01-01T00:00:00Z"
    assert problem(await claim(client, "b")) == (409, "not_head_of_session")


async def test_one_agent_s_sessions_are_not_another_s(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", session_key='["a","i"]', agent="a")
    await make.submission(id="b", session_key='["b","i"]', agent="b")
    assert codes([await claim(client, name, name) for name in ("a", "b")]) == [200, 200]


async def test_a_claim_under_an_etag_that_has_passed_is_refused(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", ready=False)
    await client.post(f"{PATH}/a/ready")
    body = {"attempt_id": "t", **LEASE}
    stale = await client.post(f"{PATH}/a/claim", json=body, headers={"if-match": '"1"'})
    assert problem(stale) == (412, "precondition_failed")
    assert (await client.post(f"{PATH}/a/claim", json=body, headers={"if-match": '"2"'})).status_code == 200
