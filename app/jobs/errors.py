"""What can be wrong about a job."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class JobNotFound(NotFound):
    """There is no such job in this tenant."""

    code, title = "job_not_found", "There is no such job"


class JobEnded(Conflict):
    """The job has ended, so it cannot be cancelled."""

    code, title = "job_ended", "The job has ended"
