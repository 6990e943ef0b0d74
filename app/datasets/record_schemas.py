"""The records of datasets, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonValue, Verbatim
from app.http.paging import IncludingListQuery, PageOf

RECORDS_MAX = 1000
Ids = Annotated[list[Id], Field(min_length=1, max_length=RECORDS_MAX)]


class NewDatasetRecord(Body):
    """A record of a dataset. Without an id the service makes one."""

    id: Id | None = Field(None, examples=["dsr_1"])
    dataset_version_id: Id | None = Field(None, examples=["v1"])
    workflow_input: Verbatim | None = Field(None, examples=[{"question": "Why is the sky blue?"}])
    ground_truth: Verbatim | None = Field(None, examples=[{"answer": "Rayleigh scattering."}])
    output_schema: JsonValue | None = Field(None, examples=[{"type": "object"}])
    rubric: JsonValue | None = Field(None, examples=[[{"criterion": "names the effect", "weight": 1}]])


class NewDatasetRecords(Body):
    """Records to store together: all of them, or none."""

    items: list[NewDatasetRecord] = Field(min_length=1, max_length=RECORDS_MAX)


class Lookup(Body):
    """Which records, in which order; an id may come more than once."""

    ids: Ids = Field(examples=[["dsr_1"]])
    allow_missing: bool = Field(False, description="Leave out what is not there, and name it in `missing_ids`.")


class DatasetRecordList(IncludingListQuery):
    """The records of one dataset, in the order in which they were created."""

    dataset_version_id: str | None = None
    sort: Literal["created_at"] | None = None


class DatasetRecord(BaseModel):
    """A record: what to run a workflow on, and what should come of it. It never changes.

    Its payloads are shown on its own, in a lookup, and where `include` names them.
    """

    id: str
    dataset_id: str
    dataset_version_id: str | None
    workflow_input: Any = None
    ground_truth: Any = None
    output_schema: Any
    rubric: Any
    created_at: datetime


class DatasetRecords(BaseModel):
    """Records in the order in which they were sent."""

    items: list[DatasetRecord]


class FoundRecords(DatasetRecords):
    """Records in the order in which they were asked for, and the ids that are not there."""

    missing_ids: list[str]


class DatasetRecordPage(PageOf[DatasetRecord]):
    """A page of records."""
