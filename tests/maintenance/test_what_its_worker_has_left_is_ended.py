"""Cleaning up: what gave no sign of life ends with a reason; what lives, and what others need, stays."""

from __future__ import annotations

from asyncio import gather
from datetime import UTC, datetime, timedelta

import httpx

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
    rehearsed = (await client.post("/v1/maintenance/cleanup", json={"dry_run": True})).json()
    assert (await client.get("/v1/invocations/silent")).json()["status"] == "running"
    done = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert rehearsed == {**done, "dry_run": True}
    assert done["ids"] == {
        "workflow_invocations": ["silent"], "node_invocations": [], "evolution_runs": ["silent_run"],
    }  # fmt: skip
    assert (done["workflow_invocations"], done["evolution_runs"], done["more"]) == (1, 1, False)
    ended = (await client.get("/v1/invocations/silent")).json()
    assert (ended["status"], ended["error"]["category"], ended["ended_at"] is None) == ("failed", "stale", False)
    run = (await client.get("/v1/evolution-runs/silent_run")).json()
    assert (run["status"], run["notes"]) == ("interrupted", "kept")
    generation = (await client.get("/v1/evolution-runs/silent_run/generations/by-number/0")).json()
    assert generation["ended_at"] is None
    again = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert again["ids"] == {"workflow_invocations": [], "node_invocations": [], "evolution_runs": []}


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


async def test_cleaners_at_once_end_each_row_once(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    for number in range(20):
        await make.invocation(id=f"i{number}", version_id=version, started_at=LONG_AGO)
    answers = await gather(*(client.post("/v1/maintenance/cleanup", json={}) for _ in range(5)))
    assert sum(answer.json()["workflow_invocations"] for answer in answers) == 20
    revisions = {(await client.get(f"/v1/invocations/i{number}")).headers["etag"] for number in range(20)}
    assert revisions == {'"2"'}
    summary = (await client.get("/v1/invocations/summary")).json()
    assert summary["by_status"] == {"failed": 20}
