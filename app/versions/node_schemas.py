"""Node versions and their memories, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Text
from app.http.paging import ListQuery, PageOf

NODES_MAX = 1000


class NewNode(Body):
    """The configuration of a node in a version; without an id the service makes one."""

    id: Id | None = Field(None, examples=["nv_researcher_1"])
    node_id: Id = Field(examples=["researcher"])
    system_prompt: Text | None = Field(None, examples=["Find sources, quote them."])
    llm_model: Text | None = Field(None, max_length=255, examples=["small-1"])
    tools: list[Text] = Field([], max_length=10_000, examples=[["search", "read"]])
    description: Text | None = Field(None, examples=["Finds sources."])
    handoffs: list[Text] = Field([], max_length=10_000, examples=[["writer"]])
    waiting_for: list[Text] = Field([], max_length=10_000, examples=[[]])
    memory: JsonObject | None = Field(None, examples=[{"sources": []}])
    extras: JsonObject | None = Field(None, examples=[{"temperature": 0}])


class NewNodes(Body):
    """Configurations to record together: all of them, or none."""

    items: list[NewNode] = Field(min_length=1, max_length=NODES_MAX)


class NodeVersionList(ListQuery):
    """The node versions of one version, in the order they were recorded."""

    node_id: list[str] | None = None
    sort: Literal["created_at"] | None = None


class NodeVersionSearch(NodeVersionList):
    """Filters of the list of node versions across versions."""

    llm_model: list[str] | None = None
    not_llm_model: list[str] | None = Field(None, description="Any model but these, also none.")


class NodeVersion(BaseModel):
    """A revision of a node's configuration in a version."""

    id: str
    version_id: str
    node_id: str
    revision: int
    system_prompt: str | None
    llm_model: str | None
    tools: list[str]
    description: str | None
    handoffs: list[str]
    waiting_for: list[str]
    memory: dict[str, Any] | None
    extras: dict[str, Any]
    config_hash: str
    created_at: datetime


class NodeVersions(BaseModel):
    """Node versions in the order in which their configurations were sent."""

    items: list[NodeVersion]


class NodeVersionPage(PageOf[NodeVersion]):
    """A page of node versions."""
