"""How long the oldest offboarding goes on, whoever carries it out, or nobody."""

from __future__ import annotations

import pytest

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import http
from tests.http.test_metrics_tell_what_happened import figures

MADE = Statement(
    "INSERT INTO offboardings (tenant_id, id, state, created_at, receipt)"
    " SELECT id, id, state, now() - make_interval(hours => hours),"
    " CASE WHEN state = 'completed' THEN CAST('1' AS json) END"
    " FROM unnest(CAST(:states AS text[]), CAST(:hours AS int[])) WITH ORDINALITY AS n (state, hours, place),"
    " LATERAL (SELECT 'off_' || n.place AS id) AS named"
)


@pytest.mark.parametrize(
    ("states", "hours", "oldest"),
    [
        (["exporting", "completed"], [9, 8], 0),
        (["completed", "closed", "deleting", "exporting"], [9, 1, 2, 5], 2),
        (["verifying", "closed"], [7, 1], 7),
    ],
)
async def test_the_oldest_is_told_but_for_what_waits_for_the_operator(
    fresh: Service, states: list[str], hours: list[int], oldest: int
) -> None:
    await fresh.ground.database.rows(MADE, states=states, hours=hours)
    async with http(fresh) as stranger:
        told = (await figures(stranger))["cairn_offboarding_oldest_seconds"]
    assert told == pytest.approx(oldest * 3600, abs=60)
