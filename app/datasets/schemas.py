"""Datasets and their versions, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Text
from app.http.paging import ListQuery, PageOf

Name = Annotated[Text, Field(min_length=1)]
Sought = Annotated[str, Field(max_length=255, description="Text within the name or the description.")]


class DatasetChange(Body):
    """The fields of a dataset to update."""

    name: Name = Field(default_factory=str, examples=["Questions of May"])
    description: Text | None = Field(None, examples=["Asked by customers, answered by hand."])
    data_format: Text | None = Field(None, examples=["qa"])
    status: Text | None = Field(None, examples=["ready"])
    owner_id: Id | None = Field(None, examples=["user_42"])
    metadata: JsonObject | None = Field(None, examples=[{"team": "search"}])


class NewDataset(DatasetChange):
    """A dataset to create; without an id the service makes one."""

    id: Id | None = Field(None, examples=["ds_may"])
    name: Name = Field(examples=["Questions of May"])


class NewDatasetVersion(Body):
    """A version of a dataset: a name for the records that say they belong to it."""

    id: Id | None = Field(None, examples=["v1"])
    name: Text | None = Field(None, examples=["Before the review"])
    version_label: Text | None = Field(None, examples=["1.0"])
    snapshot_metadata: JsonObject | None = Field(None, examples=[{"source": "export of 5 May"}])


class DatasetList(ListQuery):
    """Filters of the list of datasets."""

    owner_id: str | None = None
    q: Sought | None = None
    sort: Literal["created_at"] | None = None


class DatasetVersionList(ListQuery):
    """The versions of one dataset, the newest first."""

    sort: Literal["created_at"] | None = None


class Dataset(BaseModel):
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


class DatasetVersion(BaseModel):
    """A version of a dataset; it never changes."""

    id: str
    dataset_id: str
    name: str | None
    version_label: str | None
    snapshot_metadata: dict[str, Any] | None
    created_at: datetime


class DatasetPage(PageOf[Dataset]):
    """A page of datasets."""


class DatasetVersionPage(PageOf[DatasetVersion]):
    """A page of versions of a dataset."""
