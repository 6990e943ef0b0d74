"""The versions of MCP servers and their tools, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Text
from app.http.paging import ListQuery, PageOf

TOOLS_MAX = 1000
Status = Literal["draft", "in_review", "testflight", "released", "rejected", "yanked"]
Named = Annotated[Text, Field(min_length=1, max_length=255)]


class McpVersionChange(Body):
    """The fields of a version to update. After its release only `listed`, `status` and `release_notes` change."""

    version: Named = Field(default_factory=str, examples=["1.2.0"])
    status: Status = "draft"
    mcp_spec_version: Text | None = Field(None, examples=["2025-06-18"])
    manifest_hash: Text | None = None
    capabilities: JsonObject | None = Field(None, examples=[{"tools": {"listChanged": True}}])
    listed: bool = True
    release_notes: Text | None = Field(None, examples=["Searches news too."])
    source_ref: Text | None = None
    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resources_subscribe: bool | None = None


class NewMcpVersion(McpVersionChange):
    """A version to register; a draft unless `status` says otherwise."""

    id: Id | None = Field(None, examples=["v1.2"])
    version: Named = Field(examples=["1.2.0"])


class McpVersionList(ListQuery):
    """Filters of the list of versions of a server."""

    status: list[Status] | None = None
    version: str | None = None
    listed: bool | None = None
    sort: Literal["created_at"] | None = None


class McpVersion(BaseModel):
    """A version of an MCP server, identified within it."""

    id: str
    server_id: str
    version: str
    status: Status
    mcp_spec_version: str | None
    manifest_hash: str | None
    capabilities: dict[str, Any]
    listed: bool
    release_notes: str | None
    source_ref: str | None
    tools_list_changed: bool | None
    prompts_list_changed: bool | None
    resources_list_changed: bool | None
    resources_subscribe: bool | None
    released_at: datetime | None
    created_at: datetime
    updated_at: datetime


class McpVersionPage(PageOf[McpVersion]):
    """A page of versions of a server."""


class NewMcpTool(Body):
    """A tool of a version."""

    name: Id = Field(examples=["search"])
    title: Text | None = None
    display_title: Text | None = None
    description: Text | None = Field(None, examples=["Searches the web for pages."])
    input_schema: JsonObject = Field(examples=[{"type": "object", "properties": {"q": {"type": "string"}}}])
    output_schema: JsonObject | None = None
    annotations: JsonObject | None = Field(None, examples=[{"readOnlyHint": True}])
    traits: JsonObject | None = None
    active: bool = True


class NewMcpTools(Body):
    """Tools to add together: all of them, or none."""

    items: list[NewMcpTool] = Field(min_length=1, max_length=TOOLS_MAX)


class McpToolList(ListQuery):
    """The tools of one version, by name."""

    active: bool | None = None
    sort: Literal["name"] | None = None


class McpTool(BaseModel):
    """A tool of a version of an MCP server, identified by its name."""

    name: str
    server_id: str
    version_id: str
    title: str | None
    display_title: str | None
    description: str | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    traits: dict[str, Any]
    active: bool
    created_at: datetime


class McpTools(BaseModel):
    """Tools in the order in which they were sent."""

    items: list[McpTool]


class McpToolPage(PageOf[McpTool]):
    """A page of tools."""
