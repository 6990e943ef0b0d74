"""Calls about what workflows are run on and judged by: datasets, their versions and records, and evaluators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Required, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging, Payload
from app.client.call import Call, Page, items_of, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import Json, dump
from app.client.operations import Job, job_if_any
from app.client.record import Record

M = TypeVar("M")


class Dataset(Record):
    """A set of records to run workflows on."""

    id: str
    name: str
    description: str | None
    data_format: str | None
    status: str | None
    owner_id: str | None
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class DatasetVersion(Record):
    """A version of a dataset, for its records to belong to."""

    id: str
    dataset_id: str
    name: str | None
    version_label: str | None
    snapshot_metadata: Any
    created_at: datetime


class DatasetRecord(Record):
    """One record of a dataset; its payloads are the exact text that was sent."""

    id: str
    dataset_id: str
    dataset_version_id: str | None
    workflow_input: Json | None
    ground_truth: Json | None
    output_schema: Any
    rubric: Any
    created_at: datetime


class Evaluator(Record):
    """Who judges what came of an invocation."""

    id: str
    name: str
    config: Any
    rubric: Any
    owner_id: str | None
    created_at: datetime
    updated_at: datetime


class DatasetDetails(TypedDict, total=False):
    """What may be said of a dataset besides its name."""

    description: str | None
    data_format: str | None
    status: str | None
    owner_id: str | None
    metadata: Mapping[str, Any]


class DatasetFields(DatasetDetails, total=False):
    """Fields of a dataset that a patch may name."""

    name: str


class NewDataset(DatasetDetails, total=False):
    """A dataset to create."""

    id: str
    name: Required[str]


class DatasetVersionFields(TypedDict, total=False):
    """A version of a dataset."""

    id: str
    name: str | None
    version_label: str | None
    snapshot_metadata: Mapping[str, Any] | None


class DatasetRecordFields(TypedDict, total=False):
    """A record of a dataset."""

    id: str
    dataset_version_id: str | None
    workflow_input: Payload
    ground_truth: Payload
    output_schema: Any
    rubric: Any


class EvaluatorDetails(TypedDict, total=False):
    """What may be said of an evaluator besides its name."""

    config: Any
    rubric: Any
    owner_id: str | None


class EvaluatorFields(EvaluatorDetails, total=False):
    """Fields of an evaluator that a patch may name."""

    name: str


class NewEvaluator(EvaluatorDetails, total=False):
    """An evaluator to create."""

    id: str
    name: Required[str]


class OwnedFilter(Paging, total=False):
    """Which datasets or evaluators to list."""

    owner_id: str
    q: str


class Datasets(Resource[M]):
    """Datasets with their versions and records."""

    @endpoint
    def create(self, **fields: Unpack[NewDataset]) -> Call[Dataset]:
        """Create a dataset; the same again is a replay."""
        return Call("POST", path("datasets"), one(Dataset), body=dump(fields))

    @endpoint
    def get(self, dataset_id: str) -> Call[Dataset]:
        """One dataset."""
        return Call("GET", path("datasets", dataset_id), one(Dataset))

    @listing
    def list(self, **filters: Unpack[OwnedFilter]) -> Call[Page[Dataset]]:
        """Datasets, the newest first."""
        return Call("GET", path("datasets"), page_of(Dataset), query(filters))

    @endpoint
    def patch(self, dataset_id: str, **fields: Unpack[DatasetFields]) -> Call[Dataset]:
        """Change the fields given."""
        return Call("PATCH", path("datasets", dataset_id), one(Dataset), body=dump(fields))

    @endpoint
    def delete(self, dataset_id: str) -> Call[Job | None]:
        """Delete a dataset with its versions and records, as a job where they are many; refused while invocations
        refer to one of them.
        """
        return Call("DELETE", path("datasets", dataset_id), job_if_any)

    @endpoint
    def create_version(self, dataset_id: str, **fields: Unpack[DatasetVersionFields]) -> Call[DatasetVersion]:
        """Name a version of the dataset."""
        return Call("POST", path("datasets", dataset_id, "versions"), one(DatasetVersion), body=dump(fields))

    @endpoint
    def get_version(self, dataset_id: str, version_id: str) -> Call[DatasetVersion]:
        """One version of a dataset."""
        return Call("GET", path("datasets", dataset_id, "versions", version_id), one(DatasetVersion))

    @listing
    def versions(self, dataset_id: str, **paging: Unpack[Paging]) -> Call[Page[DatasetVersion]]:
        """The versions of a dataset, the newest first."""
        return Call("GET", path("datasets", dataset_id, "versions"), page_of(DatasetVersion), query(paging))


class DatasetRecords(Resource[M]):
    """The records of datasets."""

    @endpoint
    def record(
        self, dataset_id: str, *, include: Sequence[str] = (), **fields: Unpack[DatasetRecordFields]
    ) -> Call[DatasetRecord]:
        """Store one record."""
        parameters = query({"include": include})
        return Call("POST", path("datasets", dataset_id, "records"), one(DatasetRecord), parameters, dump(fields))

    @endpoint
    def record_many(
        self, dataset_id: str, items: Sequence[DatasetRecordFields], *, include: Sequence[str] = ()
    ) -> Call[Sequence[DatasetRecord]]:
        """Store up to 1,000 records, all or none."""
        target = path("datasets", dataset_id, "records")
        return Call("POST", target, items_of(DatasetRecord), query({"include": include}), dump({"items": items}))

    @listing
    def list(
        self, dataset_id: str, *, dataset_version_id: str | None = None, **paging: Unpack[Paging]
    ) -> Call[Page[DatasetRecord]]:
        """The records of a dataset, in the order in which they were created."""
        filters = {"dataset_version_id": dataset_version_id, **paging}
        return Call("GET", path("datasets", dataset_id, "records"), page_of(DatasetRecord), query(filters))

    @endpoint
    def lookup(
        self, ids: Sequence[str], *, allow_missing: bool = False, include: Sequence[str] = ()
    ) -> Call[Sequence[DatasetRecord]]:
        """Records with their payloads, in the order asked and as often as asked.

        An id that is not there raises `DatasetRecordNotFoundError`, whose `missing_ids` names all of them; with
        `allow_missing` it is left out.
        """
        body: dict[str, Any] = {"ids": [*ids]}
        if allow_missing:
            body["allow_missing"] = True
        target = path("dataset-records", "lookup")
        return Call("POST", target, items_of(DatasetRecord), query({"include": include}), dump(body))

    @endpoint
    def get(self, record_id: str, *, include: Sequence[str] = ()) -> Call[DatasetRecord]:
        """One record with its payloads."""
        return Call("GET", path("dataset-records", record_id), one(DatasetRecord), query({"include": include}))

    @endpoint
    def delete(self, record_id: str) -> Call[None]:
        """Delete a record; refused while invocations refer to it."""
        return Call("DELETE", path("dataset-records", record_id), nothing)


class Evaluators(Resource[M]):
    """Evaluators."""

    @endpoint
    def create(self, **fields: Unpack[NewEvaluator]) -> Call[Evaluator]:
        """Create an evaluator; the same again is a replay."""
        return Call("POST", path("evaluators"), one(Evaluator), body=dump(fields))

    @endpoint
    def get(self, evaluator_id: str) -> Call[Evaluator]:
        """One evaluator."""
        return Call("GET", path("evaluators", evaluator_id), one(Evaluator))

    @listing
    def list(self, **filters: Unpack[OwnedFilter]) -> Call[Page[Evaluator]]:
        """Evaluators, the newest first."""
        return Call("GET", path("evaluators"), page_of(Evaluator), query(filters))

    @endpoint
    def patch(self, evaluator_id: str, **fields: Unpack[EvaluatorFields]) -> Call[Evaluator]:
        """Change the fields given."""
        return Call("PATCH", path("evaluators", evaluator_id), one(Evaluator), body=dump(fields))

    @endpoint
    def delete(self, evaluator_id: str) -> Call[None]:
        """Delete an evaluator; refused while something refers to it."""
        return Call("DELETE", path("evaluators", evaluator_id), nothing)
