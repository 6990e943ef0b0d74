"""The client's call about maintenance against the running service."""

from __future__ import annotations

import pytest

from app.client import AsyncCairn, Cairn, InvalidInputError
from tests.e2e.conftest import Served

LONG_AGO = "2026-01-05T10:00:00Z"


async def test_what_is_silent_ends_in_both_modes(served: Served, cairn: Cairn) -> None:
    version_id = cairn.versions.create("wf_1", dsl={}, workflow={}).id
    cairn.invocations.create(id="inv_1", version_id=version_id, started_at=LONG_AGO)
    cairn.evolution_runs.create(id="run_1", started_at=LONG_AGO)
    rehearsed = cairn.maintenance.clean_up(dry_run=True)
    assert (rehearsed.dry_run, rehearsed.workflow_invocations, rehearsed.more) == (True, 1, False)
    assert cairn.invocations.get("inv_1").status == "running"
    with pytest.raises(InvalidInputError) as caught:
        cairn.maintenance.clean_up(invocation_seconds=1)
    assert [error["pointer"] for error in caught.value.errors] == ["/thresholds/invocation_seconds"]
    async with AsyncCairn(served.url, key=served.key) as other:
        spared = await other.maintenance.clean_up(evolution_run_seconds=366 * 24 * 3600)
        assert (spared.ids.workflow_invocations, spared.ids.evolution_runs) == (["inv_1"], [])
        ended = await other.maintenance.clean_up()
    assert (ended.workflow_invocations, ended.evolution_runs, ended.ids.evolution_runs) == (0, 1, ["run_1"])
    assert cairn.evolution_runs.get("run_1").status == "interrupted"
