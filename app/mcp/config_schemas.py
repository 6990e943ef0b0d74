"""Each user's configurations of MCP servers, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, JsonObject
from app.http.paging import ListQuery, PageOf

# How many configurations one user may have; the set is read and replaced as a whole.
CONFIGS_MAX = 1000
CONFIG = Field(
    None,
    description='How to reach or start the server. Secrets only as references; `{"plain": …}` where none is meant.',
    examples=[
        {
            "command": "npx",
            "args": ["search-server"],
            "env": {"KEY": {"secret_ref": "search"}, "LOG_LEVEL": "info"},
        }
    ],
)


class McpConfigChange(Body):
    """The fields of a configuration to update; `config` is replaced whole."""

    name: Id = Field(default_factory=str, examples=["search"])
    server_id: Id | None = Field(None, examples=["mcp_search"])
    config: JsonObject | None = CONFIG
    enabled: bool = True


class McpConfigItem(McpConfigChange):
    """A configuration of a set, known by its name."""

    name: Id = Field(examples=["search"])


class McpConfigFields(McpConfigItem):
    """A configuration of a user: of a server of the registry, or of one's own with a `command`."""

    user_id: Id = Field(examples=["user_42"])


class NewMcpConfig(McpConfigFields):
    """A configuration to add; without an id the service makes one."""

    id: Id | None = Field(None, examples=["mcpc_1"])


class McpConfigSet(Body):
    """All configurations of a user. What is not among them is removed."""

    items: list[McpConfigItem] = Field(max_length=CONFIGS_MAX)


class McpConfigList(ListQuery):
    """Filters of the list of configurations."""

    user_id: str | None = None
    server_id: str | None = None
    has_server: bool | None = Field(None, description="Whether it names a server of the registry.")
    enabled: bool | None = None
    sort: Literal["created_at", "name"] | None = None


class McpConfig(BaseModel):
    """A user's configuration of an MCP server; its name is its own among the user's."""

    id: str
    user_id: str
    name: str
    server_id: str | None
    config: dict[str, Any]
    enabled: bool
    created_at: datetime
    updated_at: datetime


class McpConfigs(BaseModel):
    """All configurations of a user, by name."""

    user_id: str
    items: list[McpConfig]


class McpConfigPage(PageOf[McpConfig]):
    """A page of configurations."""
