"""Checkpoints, and what is done of an invocation, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Count, Id, Verbatim
from app.http.paging import IncludeQuery, IncludingListQuery, PageOf
from app.invocations.schemas import Invocation


class NewCheckpoint(Body):
    """A checkpoint to record. Without a number it gets the next under the invocation."""

    number: Count | None = Field(None, examples=[1])
    node_id: Id | None = Field(None, examples=["researcher"])
    state: Verbatim = Field(examples=[{"step": 3}])


class CheckpointList(IncludingListQuery):
    """The checkpoints of one invocation, by number."""

    node_id: str | None = None
    sort: Literal["number"] | None = None


class LatestQuery(IncludeQuery):
    """Of which node."""

    node_id: str | None = None


class Checkpoint(BaseModel):
    """The state of an invocation after a step. It never changes."""

    invocation_id: str
    number: int
    node_id: str | None
    state: Any = None
    created_at: datetime


class CheckpointPage(PageOf[Checkpoint]):
    """A page of checkpoints."""


class ResumedNode(BaseModel):
    """A node invocation, as far as resuming needs it."""

    id: str
    node_id: str
    attempt_no: int
    status: Literal["running", "completed", "failed"]
    started_at: datetime
    ended_at: datetime | None


class NodeCounts(BaseModel):
    """How many node invocations there are of each status."""

    completed: int
    running: int
    failed: int


class Resumption(BaseModel):
    """What is done: the last checkpoint, and at most 10,000 node invocations of each status, in start order."""

    invocation: Invocation
    checkpoint: Checkpoint | None
    completed_nodes: list[ResumedNode]
    running_nodes: list[ResumedNode]
    failed_nodes: list[ResumedNode]
    node_counts: NodeCounts
