"""The registry of MCP servers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def _id(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(collation="C"), nullable=nullable)


def _text(*names: str, nullable: bool = True) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def _flags(*names: str, nullable: bool = True) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Boolean(), nullable=nullable) for name in names]


def _object(name: str) -> sa.Column[Any]:
    return sa.Column(
        name, postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
    )


def _json(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, postgresql.JSONB(astext_type=sa.Text()), nullable=nullable)


def _moment(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False)


def _revision(start: str = "1") -> sa.Column[Any]:
    return sa.Column("revision", sa.BigInteger(), server_default=sa.text(start), nullable=False)


def upgrade() -> None:
    op.create_table(
        "mcp_servers",
        _id("tenant_id"),
        _id("id"),
        _id("publisher_id"),
        _id("slug"),
        *_text("display_name", nullable=False),
        *_text("short_description", "long_description", "homepage_url", "repo_url", "logo_url"),
        *_text("visibility", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _revision(),
        _moment("created_at"),
        _moment("updated_at"),
        sa.CheckConstraint("visibility IN ('public', 'unlisted', 'private')", name=op.f("ck_mcp_servers_visibility")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_mcp_servers_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_mcp_servers")),
        sa.UniqueConstraint("tenant_id", "publisher_id", "slug", name="uq_mcp_servers_slug"),
    )
    op.create_index("ix_mcp_servers_created_at", "mcp_servers", ["tenant_id", "created_at", "id"])
    op.create_table(
        "mcp_versions",
        _id("tenant_id"),
        _id("server_id"),
        _id("id"),
        _id("version"),
        *_text("status", nullable=False),
        *_text("mcp_spec_version", "manifest_hash"),
        _object("capabilities"),
        *_flags("listed", nullable=False),
        *_text("release_notes", "source_ref"),
        *_flags("tools_list_changed", "prompts_list_changed", "resources_list_changed", "resources_subscribe"),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _revision(),
        _moment("created_at"),
        _moment("updated_at"),
        sa.CheckConstraint(
            "status IN ('draft', 'in_review', 'testflight', 'released', 'rejected', 'yanked')",
            name=op.f("ck_mcp_versions_status"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "server_id"],
            ["mcp_servers.tenant_id", "mcp_servers.id"],
            name=op.f("fk_mcp_versions_tenant_id_server_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "server_id", "id", name=op.f("pk_mcp_versions")),
        sa.UniqueConstraint("tenant_id", "server_id", "version", name="uq_mcp_versions_version"),
    )
    op.create_index("ix_mcp_versions_created_at", "mcp_versions", ["tenant_id", "server_id", "created_at", "id"])
    op.create_table(
        "mcp_tools",
        _id("tenant_id"),
        _id("server_id"),
        _id("version_id"),
        _id("name"),
        *_text("title", "display_title", "description"),
        _json("input_schema", nullable=False),
        _json("output_schema"),
        _json("annotations"),
        _object("traits"),
        *_flags("active", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _moment("created_at"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "server_id", "version_id"],
            ["mcp_versions.tenant_id", "mcp_versions.server_id", "mcp_versions.id"],
            name="fk_mcp_tools_version_id",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "server_id", "version_id", "name", name=op.f("pk_mcp_tools")),
    )
    op.create_table(
        "mcp_config_sets",
        _id("tenant_id"),
        _id("user_id"),
        _revision("0"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_mcp_config_sets_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", name=op.f("pk_mcp_config_sets")),
    )
    op.create_table(
        "mcp_configs",
        _id("tenant_id"),
        _id("id"),
        _id("user_id"),
        _id("name"),
        _id("server_id", nullable=True),
        _object("config"),
        *_flags("enabled", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        _revision(),
        _moment("created_at"),
        _moment("updated_at"),
        sa.CheckConstraint(
            "server_id IS NOT NULL OR config ? 'command'", name=op.f("ck_mcp_configs_server_or_command")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "user_id"],
            ["mcp_config_sets.tenant_id", "mcp_config_sets.user_id"],
            name=op.f("fk_mcp_configs_tenant_id_user_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "server_id"],
            ["mcp_servers.tenant_id", "mcp_servers.id"],
            name=op.f("fk_mcp_configs_tenant_id_server_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_mcp_configs")),
        sa.UniqueConstraint("tenant_id", "user_id", "name", name="uq_mcp_configs_name"),
    )
    op.create_index("ix_mcp_configs_created_at", "mcp_configs", ["tenant_id", "created_at", "id"])
    op.create_index("ix_mcp_configs_server_id", "mcp_configs", ["tenant_id", "server_id"])


def downgrade() -> None:
    for table in ("mcp_configs", "mcp_config_sets", "mcp_tools", "mcp_versions", "mcp_servers"):
        op.drop_table(table)
