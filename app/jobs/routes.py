"""Jobs over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.jobs import store
from app.jobs.errors import JobEnded, JobNotFound
from app.jobs.schemas import Job, JobList, JobPage

routes = Routes("jobs")


@routes.get("/v1/jobs", scope="jobs:read", response_model=JobPage)
async def list_jobs(call: Call, query: JobList) -> Answer:
    """The jobs of this tenant, the newest first."""
    return await page(call, store.JOBS, query)


@routes.get("/v1/jobs/{job_id}", scope="jobs:read", response_model=Job, errors=(JobNotFound,))
async def get_job(call: Call, job_id: str) -> Answer:
    """A job: how far it is, and how it ended."""
    return await store.get(call.reader, call.tenant_id, job_id)


@routes.post("/v1/jobs/{job_id}/cancel", scope="jobs:write", response_model=Job, errors=(JobNotFound, JobEnded))
async def cancel_job(call: Call, job_id: str) -> Answer:
    """Cancel a job: one that waits ends now, one that runs ends before its next step. What is done stays done."""
    return await store.cancel(call.writer, call.tenant_id, job_id)
