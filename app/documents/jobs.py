"""The job `documents.cut`: what secret paths name is cut from bodies that were stored before they were named."""

from __future__ import annotations

from app.db.database import Transaction
from app.documents.collection_store import Cut, cut_step
from app.jobs.store import Claimed, Standing, Step


async def cut_documents(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
    """One step. To cut twice is to cut once, so a resumed job harms nothing; until its end every read cuts too."""
    asked, left = standing.arguments, standing.resume_from or {}
    cut = Cut(job.tenant_id, asked["collection"], tuple(asked["secret_paths"]), asked["created_at"], **left)
    done, rest = await cut_step(transaction, cut)
    kind = "deliveries" if cut.after_delivery is not None else "documents" if cut.after_id is None else "revisions"
    counts = {kind: done} if done else {}
    if rest is None:
        return Step({}, done, counts, finished=True)
    return Step(rest.place(), done, counts)
