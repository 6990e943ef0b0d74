"""What can be wrong in the registry of MCP servers."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, InvalidInput, NotFound, invalid


class McpServerNotFound(NotFound):
    """There is no such MCP server for this tenant."""

    code, title = "mcp_server_not_found", "There is no such MCP server"


class McpServerConflict(Conflict):
    """The id belongs to a server that was created with other fields."""

    code, title = "mcp_server_conflict", "The id belongs to another MCP server"


class McpSlugTaken(Conflict):
    """The publisher has another server with this slug."""

    code, title = "mcp_slug_taken", "The publisher has another server with this slug"


class McpServerInUse(Conflict):
    """Configurations of users refer to the server."""

    code, title = "mcp_server_in_use", "Configurations refer to the MCP server"


class McpVersionNotFound(NotFound):
    """The server has no such version."""

    code, title = "mcp_version_not_found", "The server has no such version"


class McpVersionConflict(Conflict):
    """The id, or the version's name, belongs to another version of the server."""

    code, title = "mcp_version_conflict", "The server has another version of this id or name"


class McpVersionReleased(Conflict):
    """The version has been released: only `listed`, `status` and `release_notes` change from then on."""

    code, title = "mcp_version_released", "A released version does not change"


class McpTransitionRefused(Conflict):
    """The version's status does not lead to the one asked for."""

    code, title = "mcp_transition_refused", "The status does not lead there"


class McpToolNotFound(NotFound):
    """The version has no such tool."""

    code, title = "mcp_tool_not_found", "The version has no such tool"


class McpToolConflict(Conflict):
    """The version has tools of these names with other fields; `names` lists them, and nothing was stored."""

    code, title = "mcp_tool_conflict", "The name belongs to another tool"


class McpConfigNotFound(NotFound):
    """There is no such configuration for this tenant."""

    code, title = "mcp_config_not_found", "There is no such configuration"


class McpConfigConflict(Conflict):
    """The id or the name belongs to another configuration."""

    code, title = "mcp_config_conflict", "The id or the name belongs to another configuration"


class McpConfigsFull(Conflict):
    """The user has as many configurations as there may be."""

    code, title = "mcp_configs_full", "The user has too many configurations"


class SecretRefused(InvalidInput):
    """A configuration holds what may be a secret value where only a reference may stand; nothing was stored."""

    code, title = "secret_refused", "Secret values are not stored; refer to them"


def _no_command() -> InvalidInput:
    return invalid("/config", "must have a `command` where no server_id is given")


constraint("uq_mcp_servers_slug", lambda: McpSlugTaken("The publisher has another server with this slug."))
constraint("fk_mcp_versions_tenant_id_server_id", lambda: McpServerNotFound("There is no such MCP server."))
constraint("uq_mcp_versions_version", lambda: McpVersionConflict("The server has this version under another id."))
constraint("fk_mcp_tools_version_id", lambda: McpVersionNotFound("The server has no such version."))
constraint("fk_mcp_configs_tenant_id_server_id", lambda: McpServerNotFound("What server_id names does not exist."))
constraint("uq_mcp_configs_name", lambda: McpConfigConflict("The user has another configuration of this name."))
constraint("ck_mcp_configs_server_or_command", _no_command)
