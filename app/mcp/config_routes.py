"""Each user's configurations of MCP servers over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.mcp import config_store
from app.mcp.config_schemas import (
    McpConfig,
    McpConfigChange,
    McpConfigFields,
    McpConfigList,
    McpConfigPage,
    McpConfigs,
    McpConfigSet,
    NewMcpConfig,
)
from app.mcp.errors import McpConfigConflict, McpConfigNotFound, McpConfigsFull, McpServerNotFound, SecretRefused

routes = Routes("mcp")
CONFIGS = "/v1/mcp/configs"
CONFIG = CONFIGS + "/{config_id}"
OF_USER = "/v1/mcp/users/{user_id}/configs"
NEW = (SecretRefused, McpServerNotFound, McpConfigConflict, McpConfigsFull)


@routes.post(CONFIGS, scope="mcp:write", response_model=McpConfig, status_code=201, transactional=True, errors=NEW)
async def create_mcp_config(call: Call, body: NewMcpConfig) -> Answer:
    """Add a configuration of a user. What may be a secret value in it is refused with 422, and stored nowhere."""
    return await config_store.create(call.writer, call.tenant_id, body.given())


@routes.get(CONFIGS, scope="mcp:read", response_model=McpConfigPage)
async def list_mcp_configs(call: Call, query: McpConfigList) -> Answer:
    """The configurations of this tenant, of one user with `user_id`, the newest first."""
    return await page(call, config_store.CONFIGS, query)


@routes.get(CONFIG, scope="mcp:read", response_model=McpConfig, errors=(McpConfigNotFound,))
async def get_mcp_config(call: Call, config_id: str) -> Answer:
    """A configuration."""
    return await config_store.get(call.reader, call.tenant_id, config_id)


@routes.put(CONFIG, scope="mcp:write", response_model=McpConfig, status_code=201, transactional=True, errors=NEW)
async def ensure_mcp_config(call: Call, config_id: str, body: McpConfigFields) -> Answer:
    """Ensure that a configuration exists: create it (201), or update the fields given (200)."""
    return await config_store.ensure(
        call.writer, call.tenant_id, config_id, body.given(), call.if_match, may_create=call.may_create
    )


@routes.patch(
    CONFIG,
    scope="mcp:write",
    response_model=McpConfig,
    transactional=True,
    errors=(McpConfigNotFound, McpServerNotFound, McpConfigConflict, SecretRefused),
)
async def patch_mcp_config(call: Call, config_id: str, body: McpConfigChange) -> Answer:
    """Update the fields given; `config` is replaced whole. `If-Match` refuses when it has changed meanwhile."""
    return await config_store.patch(call.writer, call.tenant_id, config_id, body.given(), call.if_match)


@routes.delete(CONFIG, scope="mcp:write", status_code=204, transactional=True, errors=(McpConfigNotFound,))
async def delete_mcp_config(call: Call, config_id: str) -> Answer:
    """Delete a configuration."""
    return await config_store.delete(call.writer, call.tenant_id, config_id, call.if_match)


@routes.get(OF_USER, scope="mcp:read", response_model=McpConfigs)
async def get_mcp_configs_of_user(call: Call, user_id: str) -> Answer:
    """All configurations of a user, by name. The ETag is the set's: any change of one of them moves it."""
    return await config_store.get_all(call.reader, call.tenant_id, user_id)


@routes.put(
    OF_USER,
    scope="mcp:write",
    response_model=McpConfigs,
    transactional=True,
    errors=(McpServerNotFound, SecretRefused),
)
async def replace_mcp_configs_of_user(call: Call, user_id: str, body: McpConfigSet) -> Answer:
    """Make these the configurations of a user, all or nothing: what is new is added, what differs is changed, what is
    missing is removed. `If-Match` with the set's ETag refuses when any of them has changed meanwhile.
    """
    items = [item.given() for item in body.items]
    return await config_store.put_all(call.writer, call.tenant_id, user_id, items, call.if_match)
