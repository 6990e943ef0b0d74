"""Datasets and their versions in SQL."""

from __future__ import annotations

from typing import Any

from app.datasets.errors import (
    DatasetConflict,
    DatasetInUse,
    DatasetNotFound,
    DatasetVersionConflict,
    DatasetVersionNotFound,
)
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import NotFound, changed

# The kind of the job that deletes a dataset with more records and versions than are deleted at once.
DELETE_KIND = "dataset.delete"
AT_ONCE_MAX = 1000
# What belongs to a dataset, in the order in which it can be deleted.
BELOW = ("dataset_records", "dataset_versions")
FIELDS = ("name", "description", "data_format", "status", "owner_id", "metadata")

DATASET = Shape("id", *FIELDS, instant("created_at"), instant("updated_at"))
VERSION = Shape("id", "dataset_id", "name", "version_label", "snapshot_metadata", instant("created_at"))

_CREATED = {"created_at": Sort("{t}.created_at", "timestamptz")}
DATASETS = Listing(
    "datasets",
    "datasets AS t",
    DATASET,
    sorts=_CREATED,
    default=("created_at", "desc"),
    filters={
        "owner_id": "t.owner_id = :owner_id",
        "q": "(position(lower(:q) IN lower(t.name)) > 0 OR position(lower(:q) IN lower(t.description)) > 0)",
    },
)
VERSIONS = Listing(
    "dataset_versions",
    "dataset_versions AS t",
    VERSION,
    sorts=_CREATED,
    default=("created_at", "desc"),
    filters={"dataset_id": "t.dataset_id = :dataset_id"},
)

_SQL = load(__file__, dataset=DATASET.json("d"), version=VERSION.json("v"))


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Create a dataset: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `DatasetConflict` where the id belongs to a dataset created with other fields.
    """
    dataset_id = given.get("id") or new_id("ds")
    digest = digest_of({**given, "id": dataset_id})

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=dataset_id)
        if stored is not None and stored["digest"] != digest:
            raise DatasetConflict("A dataset with this id was created with other fields.", id=dataset_id)

    fields = {name: given.get(name) for name in FIELDS}
    return await decided(writer, _SQL["create"], why, tenant_id=tenant_id, id=dataset_id, digest=digest, **fields)


async def patch(
    writer: Writer, tenant_id: str, dataset_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `DatasetNotFound`, `PreconditionFailed`."""
    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    answer = await writer.answer(
        _SQL["patch"], tenant_id=tenant_id, id=dataset_id, if_match=if_match, **fields, **named
    )
    if answer is None:
        current = await get(writer, tenant_id, dataset_id)
        raise changed("dataset", current.etag)
    return answer


async def get(reader: Reader, tenant_id: str, dataset_id: str) -> Answer:
    """The dataset. Raises `DatasetNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=dataset_id)
    if row is None:
        raise DatasetNotFound("There is no such dataset.", id=dataset_id)
    return Answer(200, row["body"], row["revision"])


async def delete(writer: Writer, tenant_id: str, dataset_id: str, if_match: list[int] | None) -> Answer | None:
    """Delete a dataset with its records and versions; in a transaction. None, and nothing was done, where they are
    more than `AT_ONCE_MAX`: that is for a job.

    Raises `DatasetNotFound`, `PreconditionFailed`, `DatasetInUse` where invocations refer to one of its records.
    """
    locked = await lock(writer, tenant_id, dataset_id)
    if locked is None:
        raise DatasetNotFound("There is no such dataset.", id=dataset_id)
    if if_match is not None and locked not in if_match:
        raise changed("dataset", locked)
    # Before anything that costs what the dataset holds.
    if await count(writer, tenant_id, dataset_id, AT_ONCE_MAX + 1) > AT_ONCE_MAX:
        return None
    await refuse_if_used(writer, tenant_id, dataset_id)
    for table in BELOW:
        await delete_below(writer, tenant_id, dataset_id, table, AT_ONCE_MAX)
    return await delete_alone(writer, tenant_id, dataset_id)


async def lock(writer: Writer, tenant_id: str, dataset_id: str) -> int | None:
    """Hold the dataset to the end of the transaction, so that nothing is added to it; its revision, if it is there."""
    row = await writer.row(_SQL["lock"], tenant_id=tenant_id, id=dataset_id)
    return None if row is None else row["revision"]


async def refuse_if_used(writer: Writer, tenant_id: str, dataset_id: str) -> None:
    """Raise `DatasetInUse` where invocations refer to one of its records, naming some of them."""
    referring = await writer.rows(_SQL["referring"], tenant_id=tenant_id, id=dataset_id)
    if referring:
        raise _in_use([row["id"] for row in referring])


async def count(writer: Writer, tenant_id: str, dataset_id: str, limit: int) -> int:
    """How many records and versions there are; at most `limit` of each are counted."""
    row = await writer.row(_SQL["count"], tenant_id=tenant_id, id=dataset_id, limit=limit)
    assert row is not None
    return int(row["count"])


async def delete_below(writer: Writer, tenant_id: str, dataset_id: str, table: str, limit: int) -> int:
    """Delete at most `limit` rows of a table in `BELOW`, and say how many it were. Raises `DatasetInUse`."""
    try:
        row = await writer.row(_SQL[f"delete_{table}"], tenant_id=tenant_id, id=dataset_id, limit=limit)
    except NotFound as refusal:
        # An invocation that named a record was committed since we looked.
        raise _in_use([]) from refusal
    assert row is not None
    return int(row["removed"])


async def delete_alone(writer: Writer, tenant_id: str, dataset_id: str) -> Answer:
    """Delete a dataset that is locked and has neither records nor versions."""
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=dataset_id)
    assert answer is not None
    return answer


def _in_use(invocation_ids: list[str]) -> DatasetInUse:
    return DatasetInUse("Invocations refer to records of this dataset.", invocation_ids=invocation_ids)


async def create_version(writer: Writer, tenant_id: str, dataset_id: str, given: dict[str, Any]) -> Answer:
    """Name a version of a dataset: 201, or 200 where it was created with the same fields.

    Raises `DatasetNotFound`, `DatasetVersionConflict`.
    """
    version_id = given.get("id") or new_id("dsv")
    digest = digest_of({**given, "id": version_id})
    key = {"tenant_id": tenant_id, "dataset_id": dataset_id, "id": version_id}

    async def why() -> None:
        stored = await writer.row(_SQL["get_version"], **key)
        if stored is not None and stored["digest"] != digest:
            raise DatasetVersionConflict("A version with this id was created with other fields.", id=version_id)

    fields = {name: given.get(name) for name in ("name", "version_label", "snapshot_metadata")}
    return await decided(writer, _SQL["create_version"], why, digest=digest, **key, **fields)


async def get_version(reader: Reader, tenant_id: str, dataset_id: str, version_id: str) -> Answer:
    """A version of the dataset. Raises `DatasetVersionNotFound`."""
    row = await reader.row(_SQL["get_version"], tenant_id=tenant_id, dataset_id=dataset_id, id=version_id)
    if row is None:
        raise DatasetVersionNotFound("The dataset has no such version.", id=version_id)
    return Answer(200, row["body"])
