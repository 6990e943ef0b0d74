"""Datasets and their versions over HTTP."""

from __future__ import annotations

from app.datasets import store
from app.datasets.errors import (
    DatasetConflict,
    DatasetInUse,
    DatasetNotFound,
    DatasetTooLarge,
    DatasetVersionConflict,
    DatasetVersionNotFound,
)
from app.datasets.schemas import (
    Dataset,
    DatasetChange,
    DatasetList,
    DatasetPage,
    DatasetVersion,
    DatasetVersionList,
    DatasetVersionPage,
    NewDataset,
    NewDatasetVersion,
)
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.jobs import store as jobs
from app.jobs.schemas import Job

routes = Routes("datasets")


@routes.post("/v1/datasets", scope="datasets:write", response_model=Dataset, status_code=201, errors=(DatasetConflict,))
async def create_dataset(call: Call, body: NewDataset) -> Answer:
    """Create a dataset. The same id with the same fields answers 200 with the dataset as it now is."""
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/datasets", scope="datasets:read", response_model=DatasetPage)
async def list_datasets(call: Call, query: DatasetList) -> Answer:
    """The datasets of this tenant, the newest first."""
    return await page(call, store.DATASETS, query)


@routes.get("/v1/datasets/{dataset_id}", scope="datasets:read", response_model=Dataset, errors=(DatasetNotFound,))
async def get_dataset(call: Call, dataset_id: str) -> Answer:
    """A dataset."""
    return await store.get(call.reader, call.tenant_id, dataset_id)


@routes.patch("/v1/datasets/{dataset_id}", scope="datasets:write", response_model=Dataset, errors=(DatasetNotFound,))
async def patch_dataset(call: Call, dataset_id: str, body: DatasetChange) -> Answer:
    """Update the fields given; `If-Match` refuses when the dataset has changed meanwhile."""
    return await store.patch(call.writer, call.tenant_id, dataset_id, body.given(), call.if_match)


@routes.delete(
    "/v1/datasets/{dataset_id}",
    scope="datasets:write",
    status_code=204,
    transactional=True,
    errors=(DatasetNotFound, DatasetInUse, DatasetTooLarge),
    responses={202: {"model": Job, "description": "The job that deletes it, where much belongs to it"}},
)
async def delete_dataset(call: Call, dataset_id: str) -> Answer:
    """Delete a dataset with its versions and records, unless invocations refer to one of the records.

    Where these are more than 1,000 it is a job (202), which is not possible inside a batch.
    """
    answer = await store.delete(call.writer, call.tenant_id, dataset_id, call.if_match)
    if answer is not None:
        return answer
    if call.batched:
        raise DatasetTooLarge("Outside a batch it is deleted by a job.", id=dataset_id, limit=store.AT_ONCE_MAX)
    return await jobs.create(call.writer, call.tenant_id, store.DELETE_KIND, {"dataset_id": dataset_id})


@routes.post(
    "/v1/datasets/{dataset_id}/versions",
    scope="datasets:write",
    response_model=DatasetVersion,
    status_code=201,
    errors=(DatasetNotFound, DatasetVersionConflict),
)
async def create_dataset_version(call: Call, dataset_id: str, body: NewDatasetVersion) -> Answer:
    """Name a version of a dataset, for its records to belong to. Its id is its own within the dataset."""
    return await store.create_version(call.writer, call.tenant_id, dataset_id, body.given())


@routes.get(
    "/v1/datasets/{dataset_id}/versions",
    scope="datasets:read",
    response_model=DatasetVersionPage,
    errors=(DatasetNotFound,),
)
async def list_dataset_versions(call: Call, dataset_id: str, query: DatasetVersionList) -> Answer:
    """The versions of a dataset, the newest first."""
    return await page(
        call,
        store.VERSIONS,
        query,
        {**query.filters(), "dataset_id": dataset_id},
        if_empty=lambda: store.get(call.reader, call.tenant_id, dataset_id),
    )


@routes.get(
    "/v1/datasets/{dataset_id}/versions/{version_id}",
    scope="datasets:read",
    response_model=DatasetVersion,
    errors=(DatasetVersionNotFound,),
)
async def get_dataset_version(call: Call, dataset_id: str, version_id: str) -> Answer:
    """A version of a dataset."""
    return await store.get_version(call.reader, call.tenant_id, dataset_id, version_id)
