"""Node versions and their memories, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Text

NODES_MAX = 1000


class NewNode(Body):
    """The configuration of a node in a version; without an id the service makes one."""

    id: Id | None = Field(None, examples=["nv_researcher_1"])
    node_id: Id = Field(examples=["researcher"])
    system_prompt: Text | None = Field(None, examples=["Find sources, quote them."])
    llm_model: Text | None = Field(None, examples=["small-1"])
    tools: list[Text] = Field([], max_length=10_000, examples=[["search", "read"]])
    description: Text | None = Field(None, examples=["Finds sources."])
    handoffs: list[Text] = Field([], max_length=10_000, examples=[["writer"]])
    waiting_for: list[Text] = Field([], max_length=10_000, examples=[[]])
    memory: JsonObject | None = Field(None, examples=[{"sources": []}])
    extras: JsonObject | None = Field(None, examples=[{"temperature": 0}])


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
