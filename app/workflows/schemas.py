"""Workflows, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Query, Text
from app.http.paging import ListQuery, PageOf


class WorkflowFields(Body):
    """What may be said of a workflow."""

    name: Text | None = Field(None, examples=["Research assistant"])
    description: Text | None = Field(None, examples=["Answers questions with sources."])
    owner_id: Id | None = Field(None, examples=["user_42"])
    metadata: JsonObject | None = Field(None, examples=[{"team": "search"}])


class NewWorkflow(WorkflowFields):
    """A workflow to create; without an id the service makes one."""

    id: Id | None = Field(None, examples=["wf_1"])


class WorkflowList(ListQuery):
    """Filters and sorts of the list of workflows."""

    owner_id: str | None = None
    q: Annotated[str, Field(max_length=255, description="Text within the name or the description.")] | None = None
    sort: Literal["updated_at", "created_at"] | None = None


class DeleteQuery(Query):
    """Whether to delete what belongs to the workflow too."""

    cascade: bool = Field(False, description="Delete everything that belongs to the workflow, as a job (202).")


class Workflow(BaseModel):
    """A workflow, with the number of its versions and the newest of them."""

    id: str
    name: str | None
    description: str | None
    owner_id: str | None
    metadata: dict[str, Any]
    version_count: int
    latest_version_id: str | None
    created_at: datetime
    updated_at: datetime


class WorkflowPage(PageOf[Workflow]):
    """A page of workflows."""
