"""MCP servers, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, Text
from app.http.paging import ListQuery, PageOf

Visibility = Literal["public", "unlisted", "private"]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}$")]
Name = Annotated[Text, Field(min_length=1)]
Url = Annotated[Text, Field(max_length=2048)]


class McpServerChange(Body):
    """The fields of a server to update."""

    slug: Slug = Field(default_factory=str, examples=["web-search"])
    display_name: Name = Field(default_factory=str, examples=["Web search"])
    short_description: Text | None = Field(None, examples=["Searches the web."])
    long_description: Text | None = None
    homepage_url: Url | None = Field(None, examples=["https://example.com"])
    repo_url: Url | None = None
    logo_url: Url | None = None
    visibility: Visibility = "private"


class NewMcpServer(McpServerChange):
    """A server to register; private unless `visibility` says otherwise."""

    id: Id | None = Field(None, examples=["mcp_search"])
    publisher_id: Id = Field(examples=["org_1"])
    slug: Slug = Field(examples=["web-search"])
    display_name: Name = Field(examples=["Web search"])


class McpServerList(ListQuery):
    """Filters of the list of servers."""

    publisher_id: str | None = None
    slug: str | None = None
    visibility: list[Visibility] | None = None
    q: Annotated[str, Field(max_length=255, description="Text within slug, name or short description.")] | None = None
    sort: Literal["created_at"] | None = None


class McpServer(BaseModel):
    """An MCP server of the registry; its slug is its own within its publisher."""

    id: str
    publisher_id: str
    slug: str
    display_name: str
    short_description: str | None
    long_description: str | None
    homepage_url: str | None
    repo_url: str | None
    logo_url: str | None
    visibility: Visibility
    created_at: datetime
    updated_at: datetime


class McpServerPage(PageOf[McpServer]):
    """A page of servers."""
