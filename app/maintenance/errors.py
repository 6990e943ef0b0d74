"""What a clean-up says no to."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class CleanupUnderWay(Conflict):
    """Another clean-up of this tenant is under way; nothing was ended by this one. Call again when it is done."""

    code, title = "cleanup_under_way", "Another clean-up is under way"


class ScheduleNotFound(NotFound):
    """No clean-up is scheduled for this tenant."""

    code, title = "cleanup_schedule_not_found", "No clean-up is scheduled"
