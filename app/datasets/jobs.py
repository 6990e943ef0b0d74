"""The job `dataset.delete`: a dataset with its records and versions, in bounded steps."""

from __future__ import annotations

from app.datasets import store
from app.db.database import Transaction
from app.jobs.store import Claimed, Standing, Step

# What one step may remove, and as many of each kind as are counted beforehand.
ROWS_MAX = 2000
COUNTED_MAX = 10_000_000


async def delete_dataset(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
    """One step. What is gone is gone, so a resumed job does nothing twice.

    Raises `DatasetInUse`: before anything is deleted where invocations refer to a record, and later where one came to
    do so meanwhile; then what is left stays.
    """
    key = (job.tenant_id, str(standing.arguments["dataset_id"]))
    if standing.resume_from is None:
        await store.refuse_if_used(transaction, *key)
        return Step({"phase": "rows"}, total=await store.count(transaction, *key, COUNTED_MAX) + 1)
    if await store.lock(transaction, *key) is None:
        return Step(finished=True)
    for table in store.BELOW:
        removed = await store.delete_below(transaction, *key, table, ROWS_MAX)
        if removed > 0:
            return Step({"phase": "rows"}, removed, {table: removed})
    await store.delete_alone(transaction, *key)
    return Step({"phase": "done"}, 1, {"datasets": 1}, finished=True)
