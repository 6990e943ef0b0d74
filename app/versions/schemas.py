"""Versions, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from app.http.fields import Body, Count, Id, JsonValue, Text, Verbatim
from app.http.paging import IncludeQuery, IncludingListQuery, PageOf
from app.versions.node_schemas import NewNode
from app.workflows.schemas import WorkflowFields

Operation = Literal["init", "mutation", "crossover", "immigrant"]
PARENTS = {"init": 0, "immigrant": 0, "mutation": 1, "crossover": 2}


class NewVersion(Body):
    """A version to create; its id defaults to the SHA-256 of its content and ancestry."""

    id: Id | None = None
    dsl: Verbatim = Field(examples=[{"nodes": [{"id": "plan"}], "edges": []}])
    operation: Operation = "init"
    parent1_id: Id | None = None
    parent2_id: Id | None = None
    parents_unknown: bool = Field(False, description="For imports: the operation had parents that nobody knows.")
    generation_id: Id | None = None
    commit_message: Text | None = Field(None, examples=["Let the planner ask back."])
    iteration_budget: Count | None = None
    time_budget_seconds: Count | None = None
    input_schema: JsonValue | None = None
    output_schema: JsonValue | None = None
    knowledge: JsonValue | None = None
    workflow: WorkflowFields | None = Field(None, description="Inserted if the workflow is absent; never changes one.")
    nodes: Annotated[list[NewNode], Field(max_length=1000)] | None = Field(
        None, description="Node versions to record with the version, in the same transaction."
    )

    @model_validator(mode="after")
    def _parents_fit(self) -> NewVersion:
        parents = [self.parent1_id, self.parent2_id]
        wanted = 0 if self.parents_unknown else PARENTS[self.operation]
        if [parent is not None for parent in parents] != [wanted > 0, wanted > 1]:
            words = ("no parents", "parent1_id alone", "parent1_id and parent2_id")[wanted]
            kind = "parents_unknown" if self.parents_unknown else self.operation
            raise ValueError(f"{kind} takes {words}")
        return self


class CreateQuery(IncludeQuery):
    """What happens when the id exists."""

    on_existing: Literal["keep"] | None = Field(None, description="`keep` answers the stored row if its DSL is equal.")


class VersionList(IncludingListQuery):
    """Filters of the list of versions."""

    workflow_id: str | None = None
    generation_id: str | None = None
    run_id: str | None = None
    dsl_hash: str | None = None
    parent_id: str | None = None
    owner_id: str | None = Field(None, description="The owner of the workflow.")
    latest: bool | None = Field(None, description="`true` shows the newest version of each workflow alone.")
    sort: Literal["created_at"] | None = None


class WorkflowVersionList(IncludingListQuery):
    """How the versions of one workflow are paged."""

    generation_id: str | None = None
    sort: Literal["created_at"] | None = None


class Version(BaseModel):
    """A version: immutable. `dsl` is shown only where `include=dsl` names it."""

    id: str
    workflow_id: str
    dsl: Any = None
    dsl_hash: str
    operation: Operation
    parent1_id: str | None
    parent2_id: str | None
    parents_unknown: bool
    generation_id: str | None
    commit_message: str | None
    iteration_budget: int | None
    time_budget_seconds: int | None
    input_schema: Any
    output_schema: Any
    knowledge: Any
    created_at: datetime
    pruned_at: datetime | None = Field(
        description="Since when it has no `dsl` any more: retention let that go, and other versions descend from it."
    )


class VersionPage(PageOf[Version]):
    """A page of versions."""


class VersionIo(BaseModel):
    """That inputs and outputs are recorded for a version."""

    version_id: str
    updated_at: datetime
