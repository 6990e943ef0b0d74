"""What can be wrong with a submission."""

from __future__ import annotations

from app.db.integrity import lost_race
from app.errors import Conflict, NotFound


class SubmissionNotFound(NotFound):
    """There is no such submission for this tenant."""

    code, title = "submission_not_found", "There is no such submission"


class SubmissionConflict(Conflict):
    """The id belongs to a submission that was admitted with other fields."""

    code, title = "submission_conflict", "The id belongs to another submission"


class NotReady(Conflict):
    """The submission is not marked ready yet."""

    code, title = "not_ready", "The submission is not ready"


class NotHeadOfSession(Conflict):
    """An earlier submission of the session is not settled."""

    code, title = "not_head_of_session", "Another submission of the session comes first"


class NotDue(Conflict):
    """The submission is not to run before the instant `not_before`."""

    code, title = "not_due", "The submission is not due yet"


class AlreadyRunning(Conflict):
    """The submission runs under the attempt `attempt_id`."""

    code, title = "already_running", "The submission runs"


class AlreadyTerminalizing(Conflict):
    """The settlement of the submission is reserved by the attempt `attempt_id`."""

    code, title = "already_terminalizing", "The submission is being settled"


class AlreadyJoined(Conflict):
    """The submission joins, or has joined, the one that `joined_into` names."""

    code, title = "already_joined", "The submission has joined another"


class AlreadySettled(Conflict):
    """The submission is settled; its outcome stays."""

    code, title = "already_settled", "The submission is settled"


class NotSettled(Conflict):
    """The submission is not settled, so it cannot be removed."""

    code, title = "not_settled", "The submission is not settled"


class NotTerminalizing(Conflict):
    """No settlement of the submission is reserved."""

    code, title = "not_terminalizing", "No settlement is reserved"


class SettlementConflict(Conflict):
    """Another record is reserved for the settlement: `record_id`, under the attempt `attempt_id`."""

    code, title = "settlement_conflict", "Another settlement is reserved"


class NotJoining(Conflict):
    """The submission is not joining the one that the path names."""

    code, title = "not_joining", "The submission is not joining this one"


class SubmissionGone(Conflict):
    """The submission was removed; only its receipt is left."""

    code, title = "submission_gone", "The submission was removed"


# Who admits the same id at the same time is run again, and then sees what the other has stored.
lost_race("pk_submissions")
