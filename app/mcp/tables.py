"""The registry of MCP servers: servers, their versions with tools, and each user's configurations."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.db.columns import METADATA, IdText, identity, moment, reference, revision, searchable, tenant, words

mcp_servers = Table(
    "mcp_servers",
    METADATA,
    tenant(),
    identity(),
    reference("publisher_id", required=True),
    Column("slug", IdText, nullable=False),
    words("display_name", required=True),
    words("short_description"),
    words("long_description"),
    words("homepage_url"),
    words("repo_url"),
    words("logo_url"),
    words("visibility", required=True),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    UniqueConstraint("tenant_id", "publisher_id", "slug", name="uq_mcp_servers_slug"),
    CheckConstraint("visibility IN ('public', 'unlisted', 'private')", name="visibility"),
    Index("ix_mcp_servers_created_at", "tenant_id", "created_at", "id"),
)

# Identified within their server, as tools are within their version.
mcp_versions = Table(
    "mcp_versions",
    METADATA,
    tenant(),
    identity("server_id"),
    identity(),
    Column("version", IdText, nullable=False),
    words("status", required=True),
    words("mcp_spec_version"),
    words("manifest_hash"),
    searchable("capabilities", default=True),
    Column("listed", Boolean, nullable=False),
    words("release_notes"),
    words("source_ref"),
    Column("tools_list_changed", Boolean),
    Column("prompts_list_changed", Boolean),
    Column("resources_list_changed", Boolean),
    Column("resources_subscribe", Boolean),
    moment("released_at"),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "server_id"], ["mcp_servers.tenant_id", "mcp_servers.id"]),
    UniqueConstraint("tenant_id", "server_id", "version", name="uq_mcp_versions_version"),
    CheckConstraint("status IN ('draft', 'in_review', 'testflight', 'released', 'rejected', 'yanked')", name="status"),
    Index("ix_mcp_versions_created_at", "tenant_id", "server_id", "created_at", "id"),
)

mcp_tools = Table(
    "mcp_tools",
    METADATA,
    tenant(),
    identity("server_id"),
    identity("version_id"),
    identity("name"),
    words("title"),
    words("display_title"),
    words("description"),
    Column("input_schema", JSONB, nullable=False),
    searchable("output_schema"),
    searchable("annotations"),
    searchable("traits", default=True),
    Column("active", Boolean, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(
        ["tenant_id", "server_id", "version_id"],
        ["mcp_versions.tenant_id", "mcp_versions.server_id", "mcp_versions.id"],
        name="fk_mcp_tools_version_id",
    ),
)

# One row for each user who has configurations: whoever changes one of them holds it, and its revision is the set's.
mcp_config_sets = Table(
    "mcp_config_sets",
    METADATA,
    tenant(),
    identity("user_id"),
    Column("revision", BigInteger, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

mcp_configs = Table(
    "mcp_configs",
    METADATA,
    tenant(),
    identity(),
    reference("user_id", required=True),
    Column("name", IdText, nullable=False),
    reference("server_id"),
    searchable("config", default=True),
    Column("enabled", Boolean, nullable=False),
    Column("digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["mcp_config_sets.tenant_id", "mcp_config_sets.user_id"]),
    ForeignKeyConstraint(["tenant_id", "server_id"], ["mcp_servers.tenant_id", "mcp_servers.id"]),
    UniqueConstraint("tenant_id", "user_id", "name", name="uq_mcp_configs_name"),
    CheckConstraint("server_id IS NOT NULL OR config ? 'command'", name="server_or_command"),
    Index("ix_mcp_configs_created_at", "tenant_id", "created_at", "id"),
    Index("ix_mcp_configs_server_id", "tenant_id", "server_id"),
)
