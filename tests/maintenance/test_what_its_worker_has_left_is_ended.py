"""Cleaning up: what gave no sign of life ends with a reason; what lives, and what others need, stays."""

from __future__ import annotations

from asyncio import gather
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.background.runner import drain
from app.http.service import Service
from app.maintenance import store
from app.maintenance.jobs import cleaner
from app.maintenance.schemas import HEARTBEAT as SECONDS
from tests.conftest import Make

LONG_AGO = "2026-01-05T10:00:00Z"


async def test_only_what_is_silent_for_too_long_ends_and_says_why(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for name in ("silent", "alive", "ended"):
        await make.invocation(id=name, version_id=version, started_at=LONG_AGO)
    await make.invocation(id="young", version_id=version)
    await make.invocation(id="queued", version_id=version, status="queued")
    await client.post("/v1/invocations/alive/heartbeat")
    await client.post("/v1/invocations/ended/end", json={"status": "completed"})
    for run in ("silent_run", "alive_run"):
        await make.created("/v1/evolution-runs", id=run, started_at=LONG_AGO, notes="kept", generation={})
    await client.post("/v1/evolution-runs/alive_run/heartbeat")
    generation = (await client.get("/v1/evolution-runs/silent_run/generations/by-number/0")).json()
    rehearsed = (await client.post("/v1/maintenance/cleanup", json={"dry_run": True})).json()
    assert (await client.get("/v1/invocations/silent")).json()["status"] == "running"
    done = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert rehearsed == {**done, "dry_run": True}
    assert done["ids"] == {
        "workflow_invocations": ["silent"], "node_invocations": [], "evolution_runs": ["silent_run"],
        "generations": [generation["id"]],
    }  # fmt: skip
    assert (done["workflow_invocations"], done["evolution_runs"], done["generations"]) == (1, 1, 1)
    assert (done["evolution_runs_end_times"], done["messages"], done["more"]) == (1, 0, False)
    ended = (await client.get("/v1/invocations/silent")).json()
    assert (ended["status"], ended["error"]["category"], ended["ended_at"] is None) == ("failed", "stale", False)
    run = (await client.get("/v1/evolution-runs/silent_run")).json()
    assert (run["status"], run["notes"]) == ("interrupted", "kept")
    generation = (await client.get("/v1/evolution-runs/silent_run/generations/by-number/0")).json()
    assert generation["ended_at"] is None
    assert generation["interrupted_at"] is not None
    assert (await client.get("/v1/evolution-runs/silent_run/generations/last-completed")).status_code == 404
    again = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert set(map(tuple, again["ids"].values())) == {()}


async def test_a_node_lives_as_long_as_its_invocation_gives_signs_of_life(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    started = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    for name in ("silent", "alive", "ended"):
        await make.invocation(id=name, version_id=version, started_at=started)
        await make.created(f"/v1/invocations/{name}/nodes", id=f"of_{name}", node_id="n", started_at=started)
    await client.post("/v1/invocations/alive/heartbeat")
    await client.post("/v1/invocations/ended/end", json={"status": "completed"})
    done = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert done["ids"]["node_invocations"] == ["of_ended", "of_silent"]
    nodes = (await client.get("/v1/node-invocations?status=failed")).json()["items"]
    assert {node["error"]["category"] for node in nodes} == {"stale"}
    assert len(nodes) == 2
    kept = {"thresholds": {"invocation_seconds": 3 * 86400, "node_invocation_seconds": 3 * 86400}}
    assert (await client.post("/v1/maintenance/cleanup", json=kept)).json()["node_invocations"] == 0


async def test_cleaners_at_once_take_turns_and_end_each_row_once(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for number in range(20):
        await make.invocation(id=f"i{number}", version_id=version, started_at=LONG_AGO)
    answers = await gather(*(client.post("/v1/maintenance/cleanup", json={}) for _ in range(5)))
    ended = [answer.json() for answer in answers if answer.status_code == 200]
    refused = [answer.json()["code"] for answer in answers if answer.status_code == 409]
    assert sum(answer["workflow_invocations"] for answer in ended) == 20
    assert (len(ended) + len(refused), set(refused) <= {"cleanup_under_way"}) == (5, True)
    revisions = {(await client.get(f"/v1/invocations/i{number}")).headers["etag"] for number in range(20)}
    assert revisions == {'"2"'}
    summary = (await client.get("/v1/invocations/summary")).json()
    assert summary["by_status"] == {"failed": 20}


async def test_who_does_not_get_the_turn_ends_nothing_and_is_told_so(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    await make.invocation(id="silent", version_id=(await make.version())["id"], started_at=LONG_AGO)
    async with service.ground.database.writing() as transaction:
        await store.clean_up(transaction, client.headers["x-test-tenant"], dry_run=False, seconds=SECONDS)
        refused = await client.post("/v1/maintenance/cleanup", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "cleanup_under_way")
        # To look is harmless. What the other one is about to end is not seen: its row is held.
        looked = await client.post("/v1/maintenance/cleanup", json={"dry_run": True})
        assert (looked.status_code, looked.json()["workflow_invocations"]) == (200, 0)


async def test_the_nodes_of_an_invocation_end_with_it_however_young_or_old_they_are(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="i", version_id=(await make.version())["id"], started_at=LONG_AGO)
    now = datetime.now(UTC).isoformat()
    for name, started in (("old", LONG_AGO), ("young", now)):
        await make.created("/v1/invocations/i/nodes", id=name, node_id="n", started_at=started)
    ending = {"node_invocation_seconds": 366 * 86400}
    done = (await client.post("/v1/maintenance/cleanup", json={"thresholds": ending})).json()
    assert (done["ids"]["node_invocations"], done["node_invocations"]) == (["old", "young"], 2)
    nodes = (await client.get("/v1/node-invocations?status=failed")).json()["items"]
    assert {(node["id"], node["error"]["category"]) for node in nodes} == {("old", "stale"), ("young", "stale")}


@pytest.mark.parametrize("preset", ["heartbeat", "ten_minutes"])
async def test_an_invocation_of_any_age_that_gives_signs_of_life_is_left_alone(
    client: httpx.AsyncClient, make: Make, preset: str
) -> None:
    version = (await make.version())["id"]
    await make.invocation(id="ancient", version_id=version, started_at="2001-01-01T00:00:00Z")
    await client.post("/v1/invocations/ancient/heartbeat")
    await make.invocation(
        id="quarter", version_id=version, started_at=(datetime.now(UTC) - timedelta(minutes=15)).isoformat()
    )
    done = (await client.post("/v1/maintenance/cleanup", json={"preset": preset})).json()
    assert done["ids"]["workflow_invocations"] == {"heartbeat": [], "ten_minutes": ["quarter"]}[preset]


async def test_an_interrupted_generation_that_is_completed_after_all_is_interrupted_no_more(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created("/v1/evolution-runs", id="run", started_at=LONG_AGO, generation={"id": "g"})
    await client.post("/v1/maintenance/cleanup", json={})
    await client.post("/v1/evolution-runs/run/reopen", json={})
    completed = (await client.post("/v1/generations/g/complete", json={})).json()
    assert (completed["ended_at"] is None, completed["interrupted_at"]) == (False, None)


async def test_a_clean_up_runs_by_itself_where_it_is_scheduled(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    await make.invocation(id="silent", version_id=(await make.version())["id"], started_at=LONG_AGO)
    assert (await client.get("/v1/maintenance/schedule")).json()["code"] == "cleanup_schedule_not_found"
    given = {"every_seconds": 3600, "preset": "ten_minutes", "thresholds": {"evolution_run_seconds": 7200}}
    made = await client.put("/v1/maintenance/schedule", json=given)
    assert made.status_code == 201
    assert made.json()["thresholds"] == {
        "invocation_seconds": 600, "node_invocation_seconds": 600, "evolution_run_seconds": 7200,
    }  # fmt: skip
    assert (await client.put("/v1/maintenance/schedule", json=given)).headers["etag"] == made.headers["etag"]
    rounds: list[None] = []
    await drain(cleaner(lambda: rounds.append(None)), service.ground.database, 10)
    assert rounds
    assert (await client.get("/v1/invocations/silent")).json()["status"] == "failed"
    schedule = (await client.get("/v1/maintenance/schedule")).json()
    assert schedule["last_counts"]["workflow_invocations"] == 1
    assert schedule["due_at"] > schedule["last_success_at"]
    stale = await client.delete("/v1/maintenance/schedule", headers={"If-Match": '"999"'})
    assert stale.status_code == 412
    assert (await client.delete("/v1/maintenance/schedule")).status_code == 204
