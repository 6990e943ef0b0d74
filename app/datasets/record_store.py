"""The records of datasets in SQL: recorded many at once, looked up by ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.datasets.errors import DatasetRecordConflict, DatasetRecordInUse, DatasetRecordNotFound
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import ids_of
from app.db.integrity import IdsTaken
from app.db.page import Listing, Sort
from app.db.shape import Shape, array, instant, items, only, stored_bytes, verbatim
from app.db.sql import Statement, load
from app.errors import InvalidInput, NotFound

# How much payload one lookup shows: as often as a record is asked for, it is in the answer.
LOOKUP_BYTES_MAX = 64 * 1024 * 1024

COLUMNS = {
    "dataset_version_id": "version_ids",
    "workflow_input": "inputs",
    "ground_truth": "truths",
    "output_schema": "schemas",
    "rubric": "rubrics",
}

RECORD = Shape(
    "id",
    "dataset_id",
    "dataset_version_id",
    verbatim("workflow_input"),
    verbatim("ground_truth"),
    "output_schema",
    "rubric",
    instant("created_at"),
)

RECORDS = Listing(
    "dataset_records",
    "dataset_records AS t",
    RECORD,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "asc"),
    filters={
        "dataset_id": "t.dataset_id = :dataset_id",
        "dataset_version_id": "t.dataset_version_id = :dataset_version_id",
    },
)

_RECORD = RECORD.json("r")
# Not the payloads: the rows that a statement returns are kept until it ends.
_SHOWN = ", ".join(f"r.{column.name}" for column in RECORD.columns if not column.verbatim)
_ONE = load(__file__, "record_queries.sql", shown=_SHOWN, body=only(_RECORD))
_MANY = load(__file__, "record_queries.sql", shown=_SHOWN, body=items(_RECORD, "g.place"))


async def record(
    writer: Writer, tenant_id: str, dataset_id: str, records: Sequence[Mapping[str, Any]], *, single: bool = False
) -> Answer:
    """Record the records, all or none: 201 if any is new, else 200, in the order given; `single` answers the one.

    Raises `DatasetNotFound`, `DatasetVersionNotFound`, `DatasetRecordConflict` (nothing is stored), `InvalidInput`
    where an id comes twice.
    """
    ids = ids_of(records, "dsr")
    try:
        answer = await writer.answer(
            (_ONE if single else _MANY)["record"],
            tenant_id=tenant_id,
            dataset_id=dataset_id,
            ids=ids,
            digests=[digest_of({**record, "id": record_id}) for record_id, record in zip(ids, records, strict=True)],
            **{plural: [record.get(name) for record in records] for name, plural in COLUMNS.items()},
        )
    except IdsTaken as taken:
        raise DatasetRecordConflict(
            "Records with these ids were created with other fields, or in another dataset.", ids=taken.ids
        ) from taken
    assert answer is not None  # an aggregate without GROUP BY has a row, or raises
    return answer


@lru_cache(maxsize=8)
def _lookup(include: frozenset[str]) -> Statement:
    size = " + ".join(stored_bytes(f"r.{name}") for name in sorted(include)) or "0"
    return Statement(
        "WITH asked AS (SELECT g.id, g.place, r.id IS NOT NULL AS there, sum(s.bytes) OVER running - s.bytes AS before"
        " FROM unnest(CAST(:ids AS text[])) WITH ORDINALITY AS g (id, place)"
        " LEFT JOIN dataset_records AS r ON r.tenant_id = :tenant_id AND r.id = g.id"
        f" CROSS JOIN LATERAL (SELECT {size} AS bytes) AS s"
        " WINDOW running AS (ORDER BY g.place ROWS UNBOUNDED PRECEDING))"
        f" SELECT a.id, a.there, a.before > CAST(:budget AS bigint) AS beyond, {RECORD.json('r', include)} AS body"
        " FROM asked AS a LEFT JOIN dataset_records AS r"
        " ON r.tenant_id = :tenant_id AND r.id = a.id AND a.before <= CAST(:budget AS bigint) ORDER BY a.place"
    )


async def lookup(
    reader: Reader, tenant_id: str, ids: Sequence[str], include: frozenset[str], *, allow_missing: bool
) -> Answer:
    """The records in the order asked, each as often as it was asked for; one statement.

    Raises `DatasetRecordNotFound` naming every id that is not there, unless `allow_missing`: then they are left out of
    `items`, and `missing_ids` names them. Raises `InvalidInput` where a record would follow payloads of more than
    `LOOKUP_BYTES_MAX` bytes.
    """
    rows = await reader.rows(_lookup(include), tenant_id=tenant_id, ids=list(ids), budget=LOOKUP_BYTES_MAX)
    missing = list(dict.fromkeys(row["id"] for row in rows if not row["there"]))
    if missing and not allow_missing:
        raise _not_found(missing)
    fitting = next((place for place, row in enumerate(rows) if row["beyond"]), None)
    if fitting is not None:
        message = f"the payloads of the first {fitting} fill one answer; ask for the others in another lookup"
        raise InvalidInput(
            f"/ids: {message}.", errors=[{"pointer": "/ids", "message": message}], limit_bytes=LOOKUP_BYTES_MAX
        )
    found = array(row["body"] for row in rows if row["there"])
    return Answer(200, b'{"items":' + found + b',"missing_ids":' + json.dumps(missing).encode() + b"}")


async def get(reader: Reader, tenant_id: str, record_id: str, include: frozenset[str]) -> Answer:
    """The record. Raises `DatasetRecordNotFound`."""
    (row,) = await reader.rows(_lookup(include), tenant_id=tenant_id, ids=[record_id], budget=LOOKUP_BYTES_MAX)
    if not row["there"]:
        raise _not_found([record_id])
    return Answer(200, row["body"])


async def delete(writer: Writer, tenant_id: str, record_id: str) -> Answer:
    """Delete a record. Raises `DatasetRecordNotFound`, `DatasetRecordInUse` where invocations refer to it."""
    try:
        answer = await writer.answer(_ONE["delete"], tenant_id=tenant_id, id=record_id)
    except NotFound as refusal:
        raise DatasetRecordInUse("Invocations refer to this record.", id=record_id) from refusal
    if answer is None:
        raise _not_found([record_id])
    return answer


def _not_found(ids: list[str]) -> DatasetRecordNotFound:
    return DatasetRecordNotFound(f"{len(ids)} of the dataset records asked for do not exist.", missing_ids=ids)
