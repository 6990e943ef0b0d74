"""Calls about how each user is connected to MCP servers: configurations, one at a time or all of a user's at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Required, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump, elements
from app.client.record import Record

M = TypeVar("M")


class McpConfig(Record):
    """A user's configuration of an MCP server; its name is its own among the user's."""

    id: str
    user_id: str
    name: str
    server_id: str | None
    config: dict[str, Any]
    enabled: bool
    created_at: datetime
    updated_at: datetime


class McpConfigSet(Record):
    """All configurations of a user; `etag` is the set's, which a change of any one of them moves."""

    user_id: str

    @property
    def configs(self) -> list[McpConfig]:
        """The configurations by name. Those within have no `etag` of their own."""
        return [McpConfig(element) for element in elements(self.raw("items").data)]


class McpConfigDetails(TypedDict, total=False):
    """What may be said of a configuration besides its name. In `config` secrets are referred to, never stored."""

    server_id: str | None
    config: Mapping[str, Any] | None
    enabled: bool


class McpConfigChange(McpConfigDetails, total=False):
    """Fields of a configuration that a patch may name; `config` is replaced whole."""

    name: str


class McpConfigItem(McpConfigDetails, total=False):
    """A configuration of a set, known by its name."""

    name: Required[str]


class McpConfigFields(McpConfigItem, total=False):
    """A configuration, without its id: of a server of the registry, or of the user's own with a `command`."""

    user_id: Required[str]


class NewMcpConfig(McpConfigFields, total=False):
    """A configuration to add."""

    id: str


class McpConfigFilter(Paging, total=False):
    """Which configurations to list; `has_server` says whether they name a server of the registry."""

    user_id: str
    server_id: str
    has_server: bool
    enabled: bool


class McpConfigs(Resource[M]):
    """The configurations of users.

    One that may hold a secret's value raises `InvalidInputError` with the code `secret_refused`, whose `errors` name
    the places; nothing is stored then.
    """

    @endpoint
    def create(self, **fields: Unpack[NewMcpConfig]) -> Call[McpConfig]:
        """Add a configuration; the same id with the same fields is a replay."""
        return Call("POST", path("mcp", "configs"), one(McpConfig), body=dump(fields))

    @endpoint
    def ensure(self, config_id: str, **fields: Unpack[McpConfigFields]) -> Call[McpConfig]:
        """Create the configuration, or update the fields given."""
        return Call("PUT", path("mcp", "configs", config_id), one(McpConfig), body=dump(fields))

    @endpoint
    def get(self, config_id: str) -> Call[McpConfig]:
        """One configuration."""
        return Call("GET", path("mcp", "configs", config_id), one(McpConfig))

    @listing
    def list(self, **filters: Unpack[McpConfigFilter]) -> Call[Page[McpConfig]]:
        """Configurations, the newest first."""
        return Call("GET", path("mcp", "configs"), page_of(McpConfig), query(filters))

    @endpoint
    def patch(self, config_id: str, **fields: Unpack[McpConfigChange]) -> Call[McpConfig]:
        """Change the fields given; the user stays."""
        return Call("PATCH", path("mcp", "configs", config_id), one(McpConfig), body=dump(fields))

    @endpoint
    def delete(self, config_id: str) -> Call[None]:
        """Delete a configuration."""
        return Call("DELETE", path("mcp", "configs", config_id), nothing)

    @endpoint
    def of_user(self, user_id: str) -> Call[McpConfigSet]:
        """All configurations of a user, with the ETag of the set."""
        return Call("GET", path("mcp", "users", user_id, "configs"), one(McpConfigSet))

    @endpoint
    def replace_of_user(self, user_id: str, items: Sequence[McpConfigItem]) -> Call[McpConfigSet]:
        """Make these all of a user's configurations, or change nothing: what is missing is removed.

        With `using(if_match=…)` of the set's `etag`, a change meanwhile raises `PreconditionFailedError`.
        """
        target = path("mcp", "users", user_id, "configs")
        return Call("PUT", target, one(McpConfigSet), body=dump({"items": items}))
