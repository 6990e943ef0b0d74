"""Tries submissions that were given up again: as new ones, since what is settled is final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.bus.hints import Key
from app.db.database import Writer
from app.db.ids import new_id
from app.errors import AppError
from app.submissions.errors import NotSettled, SubmissionGone
from app.submissions.standing import STANDING
from app.submissions.store import SQL
from app.submissions.watching import keys_of


async def replay(
    writer: Writer, tenant_id: str, submission_ids: Sequence[str]
) -> Mapping[str, AppError | tuple[str, Sequence[Key]]]:
    """Admit each of the settled submissions anew, in a transaction whose caller holds their dead letters.

    Gives for each the id of the new one and who waits for it, or why not. The new one has the session, kind, agent,
    instance, input, priority and budget of the old one, and is ready.
    """
    found: dict[str, AppError | tuple[str, Sequence[Key]]] = {}
    for submission_id in submission_ids:
        new = new_id("sub")
        row = await writer.row(SQL["readmit"], tenant_id=tenant_id, id=submission_id, new_id=new)
        if row is not None:
            found[submission_id] = (new, keys_of(tenant_id, row["moved"] or ()))
            continue
        standing = await writer.row(STANDING, tenant_id=tenant_id, id=submission_id)
        if standing is None:
            found[submission_id] = SubmissionGone(
                "The submission was removed; its input is no longer kept.", id=submission_id
            )
        else:
            found[submission_id] = NotSettled("The submission is not settled.", current_status=standing["status"])
    return found
