"""The list of submissions. Each view alone, by sequence, is read in the order of an index."""

from __future__ import annotations

from typing import Any

from app.db.page import Listing
from app.submissions.schemas import SubmissionList
from app.submissions.store import BY_SEQUENCE, INPUT_WEIGHT, RUNNABLE, SUBMISSION
from app.submissions.tables import STATUSES

# Written out, not parameters: only so does a kept plan know which partial index has them.
_VIEWS = {
    "runnable": RUNNABLE.format(t="t"),
    "unready": "t.status = 'queued' AND t.canonical_ready_at IS NULL",
    "running": "t.status = 'running'",
    "expired": "t.status = 'running' AND t.lease_lapses_at < statement_timestamp()",
    "unsettled": "t.status <> 'settled'",
}
_ONE_STATUS = {f"only_{status}": f"t.status = '{status}'" for status in STATUSES}

SUBMISSIONS = Listing(
    "submissions",
    "submissions AS t",
    SUBMISSION,
    sorts=BY_SEQUENCE,
    default=("sequence", "asc"),
    filters={
        **_VIEWS,
        **_ONE_STATUS,
        "status": "t.status = ANY (CAST(:status AS text[]))",
        "agent": "t.agent = :agent",
        "session_key": "t.session_number = (SELECT k.number FROM submission_sessions AS k"
        " WHERE k.tenant_id = :tenant_id AND k.session_key = :session_key)",
    },
    # A sequence is the tenant's once: nothing more is needed to order by.
    ids=("t.tenant_id",),
    weights=INPUT_WEIGHT,
)


def filters(query: SubmissionList) -> dict[str, Any]:
    """The filters as the listing takes them."""
    found = query.filters()
    view = found.pop("view", None)
    if view is not None:
        found[view] = True
    if query.status is not None and len(query.status) == 1:
        del found["status"]
        found[f"only_{query.status[0]}"] = True
    return found
