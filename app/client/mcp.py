"""Calls about the registry of MCP servers: servers, their versions, and the tools that each version offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypeAlias, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging, Texts
from app.client.call import Call, Page, items_of, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.record import Record

M = TypeVar("M")

Visibility: TypeAlias = Literal["public", "unlisted", "private"]
Status: TypeAlias = Literal["draft", "in_review", "testflight", "released", "rejected", "yanked"]


class McpServer(Record):
    """An MCP server; its slug is its own within its publisher."""

    id: str
    publisher_id: str
    slug: str
    display_name: str
    short_description: str | None
    long_description: str | None
    homepage_url: str | None
    repo_url: str | None
    logo_url: str | None
    visibility: str
    created_at: datetime
    updated_at: datetime


class McpVersion(Record):
    """A version of a server, identified within it; once released it is frozen."""

    id: str
    server_id: str
    version: str
    status: str
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


class McpTool(Record):
    """A tool of a version, identified by its name."""

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


class McpServerDetails(TypedDict, total=False):
    """What may be said of a server besides its names."""

    short_description: str | None
    long_description: str | None
    homepage_url: str | None
    repo_url: str | None
    logo_url: str | None
    visibility: Visibility


class McpServerFields(McpServerDetails, total=False):
    """Fields of a server that a patch may name."""

    slug: str
    display_name: str


class NewMcpServer(McpServerDetails, total=False):
    """A server to register."""

    id: str
    publisher_id: Required[str]
    slug: Required[str]
    display_name: Required[str]


class McpServerFilter(Paging, total=False):
    """Which servers to list; `q` looks within slug, name and short description."""

    publisher_id: str
    slug: str
    visibility: Texts
    q: str


class McpVersionDetails(TypedDict, total=False):
    """What may be said of a version besides its name."""

    status: Status
    mcp_spec_version: str | None
    manifest_hash: str | None
    capabilities: Mapping[str, Any] | None
    listed: bool
    release_notes: str | None
    source_ref: str | None
    tools_list_changed: bool | None
    prompts_list_changed: bool | None
    resources_list_changed: bool | None
    resources_subscribe: bool | None


class McpVersionFields(McpVersionDetails, total=False):
    """Fields of a version that a patch may name; after its release `listed`, `status` and `release_notes` alone."""

    version: str


class NewMcpVersion(McpVersionDetails, total=False):
    """A version to register."""

    id: str
    version: Required[str]


class McpVersionFilter(Paging, total=False):
    """Which versions of a server to list."""

    status: Texts
    version: str
    listed: bool


class McpToolFields(TypedDict, total=False):
    """A tool to add."""

    name: Required[str]
    title: str | None
    display_title: str | None
    description: str | None
    input_schema: Required[Mapping[str, Any]]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any] | None
    traits: Mapping[str, Any] | None
    active: bool


class McpServers(Resource[M]):
    """The servers of the registry."""

    @endpoint
    def create(self, **fields: Unpack[NewMcpServer]) -> Call[McpServer]:
        """Register a server, private unless `visibility` says otherwise; the same again is a replay."""
        return Call("POST", path("mcp", "servers"), one(McpServer), body=dump(fields))

    @endpoint
    def get(self, server_id: str) -> Call[McpServer]:
        """One server."""
        return Call("GET", path("mcp", "servers", server_id), one(McpServer))

    @listing
    def list(self, **filters: Unpack[McpServerFilter]) -> Call[Page[McpServer]]:
        """Servers, the newest first."""
        return Call("GET", path("mcp", "servers"), page_of(McpServer), query(filters))

    @endpoint
    def patch(self, server_id: str, **fields: Unpack[McpServerFields]) -> Call[McpServer]:
        """Change the fields given; the publisher stays."""
        return Call("PATCH", path("mcp", "servers", server_id), one(McpServer), body=dump(fields))

    @endpoint
    def delete(self, server_id: str) -> Call[None]:
        """Delete a server with its versions and tools; refused while configurations refer to it."""
        return Call("DELETE", path("mcp", "servers", server_id), nothing)


class McpVersions(Resource[M]):
    """The versions of servers."""

    @endpoint
    def create(self, server_id: str, **fields: Unpack[NewMcpVersion]) -> Call[McpVersion]:
        """Register a version, a draft unless `status` says otherwise; the same again is a replay."""
        return Call("POST", _versions(server_id), one(McpVersion), body=dump(fields))

    @endpoint
    def get(self, server_id: str, version_id: str) -> Call[McpVersion]:
        """One version of a server."""
        return Call("GET", _versions(server_id, version_id), one(McpVersion))

    @listing
    def list(self, server_id: str, **filters: Unpack[McpVersionFilter]) -> Call[Page[McpVersion]]:
        """The versions of a server, the newest first."""
        return Call("GET", _versions(server_id), page_of(McpVersion), query(filters))

    @endpoint
    def patch(self, server_id: str, version_id: str, **fields: Unpack[McpVersionFields]) -> Call[McpVersion]:
        """Change the fields given. A `ConflictError` tells by `facts` what a release froze, or where the status is."""
        return Call("PATCH", _versions(server_id, version_id), one(McpVersion), body=dump(fields))

    @endpoint
    def delete(self, server_id: str, version_id: str) -> Call[None]:
        """Delete a version with its tools; refused once it was released."""
        return Call("DELETE", _versions(server_id, version_id), nothing)


class McpTools(Resource[M]):
    """The tools that versions offer."""

    @endpoint
    def add(self, server_id: str, version_id: str, **fields: Unpack[McpToolFields]) -> Call[McpTool]:
        """Add a tool to a version that is not released; the same again is a replay."""
        return Call("POST", _versions(server_id, version_id, "tools"), one(McpTool), body=dump(fields))

    @endpoint
    def add_many(self, server_id: str, version_id: str, items: Sequence[McpToolFields]) -> Call[Sequence[McpTool]]:
        """Add up to 1,000 tools, all or none."""
        target = _versions(server_id, version_id, "tools")
        return Call("POST", target, items_of(McpTool), body=dump({"items": items}))

    @endpoint
    def get(self, server_id: str, version_id: str, name: str) -> Call[McpTool]:
        """One tool of a version."""
        return Call("GET", _versions(server_id, version_id, "tools", name), one(McpTool))

    @listing
    def list(
        self, server_id: str, version_id: str, *, active: bool | None = None, **paging: Unpack[Paging]
    ) -> Call[Page[McpTool]]:
        """The tools of a version, by name."""
        target = _versions(server_id, version_id, "tools")
        return Call("GET", target, page_of(McpTool), query({"active": active, **paging}))

    @endpoint
    def delete(self, server_id: str, version_id: str, name: str) -> Call[None]:
        """Take a tool off a version that is not released."""
        return Call("DELETE", _versions(server_id, version_id, "tools", name), nothing)


def _versions(server_id: str, *below: str) -> str:
    return path("mcp", "servers", server_id, "versions", *below)
