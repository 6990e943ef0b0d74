"""The records of datasets over HTTP."""

from __future__ import annotations

from app.datasets import record_store, store
from app.datasets.errors import (
    DatasetNotFound,
    DatasetRecordConflict,
    DatasetRecordInUse,
    DatasetRecordNotFound,
    DatasetVersionNotFound,
)
from app.datasets.record_schemas import (
    DatasetRecord,
    DatasetRecordList,
    DatasetRecordPage,
    DatasetRecords,
    FoundRecords,
    Lookup,
    NewDatasetRecord,
    NewDatasetRecords,
)
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.paging import IncludeQuery, page

routes = Routes("datasets")
INCLUDING = Including(record_store.RECORD, "dataset_records AS t")


@routes.post(
    "/v1/datasets/{dataset_id}/records",
    scope="datasets:write",
    including=INCLUDING,
    response_model=DatasetRecord | DatasetRecords,
    status_code=201,
    errors=(DatasetNotFound, DatasetVersionNotFound, DatasetRecordConflict),
)
async def record_dataset_records(
    call: Call, dataset_id: str, _query: IncludeQuery, body: NewDatasetRecord | NewDatasetRecords
) -> Answer:
    """Store one record, or up to 1,000 as `{"items": [...]}`: all of them, or none.

    An id that was created with the same fields is a replay and is answered as it is; 201 if any record is new, else
    200. One record is answered itself, items as `{"items": [...]}` in the order sent.
    """
    if isinstance(body, NewDatasetRecords):
        records = [record.given() for record in body.items]
        return await record_store.record(call.writer, call.tenant_id, dataset_id, records)
    return await record_store.record(call.writer, call.tenant_id, dataset_id, [body.given()], single=True)


@routes.get(
    "/v1/datasets/{dataset_id}/records",
    scope="datasets:read",
    response_model=DatasetRecordPage,
    errors=(DatasetNotFound,),
)
async def list_dataset_records(call: Call, dataset_id: str, query: DatasetRecordList) -> Answer:
    """The records of a dataset, in the order in which they were created."""
    return await page(
        call,
        record_store.RECORDS,
        query,
        {**query.filters(), "dataset_id": dataset_id},
        if_empty=lambda: store.get(call.reader, call.tenant_id, dataset_id),
    )


@routes.get(
    "/v1/dataset-records/{record_id}",
    scope="datasets:read",
    response_model=DatasetRecord,
    errors=(DatasetRecordNotFound,),
)
async def get_dataset_record(call: Call, record_id: str, query: IncludeQuery) -> Answer:
    """A record with its payloads, byte for byte; `include=` names those to show, if not all."""
    include = record_store.RECORD.shown(query.include)
    return await record_store.get(call.reader, call.tenant_id, record_id, include)


@routes.delete(
    "/v1/dataset-records/{record_id}",
    scope="datasets:write",
    status_code=204,
    errors=(DatasetRecordNotFound, DatasetRecordInUse),
)
async def delete_dataset_record(call: Call, record_id: str) -> Answer:
    """Delete a record, unless invocations refer to it."""
    return await record_store.delete(call.writer, call.tenant_id, record_id)


@routes.post(
    "/v1/dataset-records/lookup",
    scope="datasets:read",
    reads=True,
    response_model=FoundRecords,
    errors=(DatasetRecordNotFound,),
)
async def look_up_dataset_records(call: Call, query: IncludeQuery, body: Lookup) -> Answer:
    """Read up to 1,000 records by their ids, with their payloads, in the order asked and as often as asked.

    An id that is not there is 404 `dataset_record_not_found` with every such id in `missing_ids`; with `allow_missing`
    it is left out of `items` and named in `missing_ids`. This is a read: no Idempotency-Key is kept for it.
    """
    include = record_store.RECORD.shown(query.include)
    return await record_store.lookup(call.reader, call.tenant_id, body.ids, include, allow_missing=body.allow_missing)
