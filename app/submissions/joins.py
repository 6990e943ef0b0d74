"""Submissions that join another which is running: claimed for it, then joined or given back."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Writer
from app.db.page import Listing
from app.db.race import decided
from app.errors import AppError
from app.submissions.errors import NotJoining
from app.submissions.standing import IfMatch, changed_by, facts_of, standing_of, unless_current, unless_owned
from app.submissions.store import BY_SEQUENCE, INPUT_WEIGHT, SUBMISSION
from app.submissions.transitions import SQL

# How many submissions join a host in one call.
JOINS_MAX = 1000
JOINS = Listing(
    "joins",
    "(SELECT * FROM submissions AS s WHERE s.status IN ('joining', 'joined')) AS t",
    SUBMISSION,
    sorts=BY_SEQUENCE,
    default=("sequence", "asc"),
    filters={"host": "t.joined_into = :host"},
    weights=INPUT_WEIGHT,
)


async def claim(writer: Writer, tenant_id: str, host_id: str, attempt_id: str, agent: str, if_match: IfMatch) -> Answer:
    """Claim for a host what queues behind it, from the front, up to the first that may not join.

    Raises `PreconditionFailed` (the host's revision), and as `unless_owned`.
    """

    def refusal(standing: Any) -> AppError | None:
        return unless_owned(standing, host_id, attempt_id)

    return await changed_by(
        writer, SQL["claim_joins"], tenant_id, host_id, refusal, if_match=if_match, attempt_id=attempt_id, agent=agent,
        row_limit=JOINS_MAX,
    )  # fmt: skip


async def finalize(
    writer: Writer, tenant_id: str, host_id: str, child_id: str, attempt_id: str, if_match: IfMatch
) -> Answer:
    """Say that the input of a joining submission is in the host's conversation: it shares the host's fate.

    Raises `NotJoining`, `PreconditionFailed`, and as `unless_owned` for the host.
    """
    return await _moved("finalize_join", writer, tenant_id, host_id, child_id, attempt_id, if_match)


async def revert(
    writer: Writer, tenant_id: str, host_id: str, child_id: str, attempt_id: str, if_match: IfMatch
) -> Answer:
    """Give a joining submission back to the queue, to its old place. Raises as `finalize`."""
    return await _moved("revert_join", writer, tenant_id, host_id, child_id, attempt_id, if_match)


async def _moved(
    name: str, writer: Writer, tenant_id: str, host_id: str, child_id: str, attempt_id: str, if_match: IfMatch
) -> Answer:
    async def why() -> None:
        host = await standing_of(writer, tenant_id, host_id)
        refused = refusal(host, await standing_of(writer, tenant_id, child_id))
        if refused is not None:
            raise refused

    def refusal(host: Any, child: Any) -> AppError | None:
        if (child["status"], child["joined_into"]) != ("joining", host_id):
            return NotJoining("The submission is not joining this one.", **facts_of(child))
        return unless_owned(host, host_id, attempt_id) or unless_current(child, if_match)

    return await decided(
        writer, SQL[name], why, tenant_id=tenant_id, id=child_id, host_id=host_id, attempt_id=attempt_id,
        if_match=if_match,
    )  # fmt: skip
