"""Jobs, cases and an account whose Studio says yes to everything."""

from __future__ import annotations

from typing import Any

from supervaizer.account import Account
from supervaizer.case import Case, CaseNodeUpdate
from supervaizer.job import Job, JobContext

API_KEY = "sk_only_in_this_process"


class QuietAccount(Account):
    """An account whose Studio is not asked."""

    async def send_start_case(self, case: Case) -> Any:
        return {"id": case.id}

    async def send_update_case(self, case: Case, update: Any) -> Any:
        return {"id": case.id}

    def send_start_case_sync(self, case: Case) -> Any:
        return {"id": case.id}

    def send_update_case_sync(self, case: Case, update: Any) -> Any:
        return {"id": case.id}


def account(api_key: str = API_KEY, workspace_id: str = "ws_1") -> QuietAccount:
    """An account of Studio."""
    return QuietAccount(workspace_id=workspace_id, api_key=api_key, api_url="https://studio.invalid")


def context(job_id: str) -> JobContext:
    """What the platform says of a job."""
    return JobContext(
        workspace_id="ws_1",
        job_id=job_id,
        started_by="somebody",
        started_at="2026-11-01T10:00:00+00:00",
        mission_id="mission_1",
        mission_name="A mission",
    )


def job(job_id: str = "job_1", **fields: Any) -> Job:
    """A job that has just started."""
    return Job.new(context(job_id), "agent_1", **fields)


def case(job_id: str = "job_1", case_id: str = "case_1", **fields: Any) -> Case:
    """A case of it that has just started."""
    fields.setdefault("account", account())
    return Case.start_sync(job_id=job_id, case_id=case_id, name="A case", description="What it is about", **fields)


def step(name: str, **fields: Any) -> CaseNodeUpdate:
    """A step of a case."""
    return CaseNodeUpdate(name=name, cost=0.25, payload={"of": name}, **fields)
