"""What every test of retention follows rules by."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.http.service import Service
from app.retention.jobs import Retention
from app.retention.store import RUN_KIND
from tests.retention.aging import Run


@pytest.fixture
def run(service: Service, client: httpx.AsyncClient) -> Run:
    """Sets rules and follows them to the end; the job as it then is."""

    async def followed(rules: dict[str, Any], rows_max: int = 3, **asked: Any) -> dict[str, Any]:
        put = await client.put("/v1/retention", json={"kinds": rules})
        assert put.status_code == 200, put.text
        answer = await client.post("/v1/retention/runs", json=asked)
        assert answer.status_code == 202, answer.text
        jobs = JobRunner({RUN_KIND: Retention(rows_max)}, 30, service.ground.hints)
        await drain(jobs.run, service.ground.database)
        job: dict[str, Any] = (await client.get(answer.headers["location"])).json()
        assert job["state"] == "completed", job
        return job

    return followed
