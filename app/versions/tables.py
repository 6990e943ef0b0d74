"""Versions: immutable, named by content and ancestry; their nodes, node memories, inputs and outputs."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from app.db.columns import EMPTY_LIST, METADATA, exact, identity, moment, reference, revision, searchable, tenant, words

versions = Table(
    "versions",
    METADATA,
    tenant(),
    identity(),
    reference("workflow_id", required=True),
    # Null once it was pruned: others descend from it, so its place stays.
    exact("dsl"),
    words("dsl_hash", required=True),
    words("operation", required=True),
    reference("parent1_id"),
    reference("parent2_id"),
    Column("parents_unknown", Boolean, nullable=False, server_default=text("false")),
    reference("generation_id"),
    words("commit_message"),
    Column("iteration_budget", BigInteger),
    Column("time_budget_seconds", BigInteger),
    searchable("input_schema"),
    searchable("output_schema"),
    searchable("knowledge"),
    moment("created_at", default=True),
    moment("pruned_at"),
    ForeignKeyConstraint(["tenant_id", "workflow_id"], ["workflows.tenant_id", "workflows.id"]),
    ForeignKeyConstraint(["tenant_id", "parent1_id"], ["versions.tenant_id", "versions.id"]),
    ForeignKeyConstraint(["tenant_id", "parent2_id"], ["versions.tenant_id", "versions.id"]),
    ForeignKeyConstraint(["tenant_id", "generation_id"], ["generations.tenant_id", "generations.id"]),
    CheckConstraint("operation IN ('init', 'mutation', 'crossover', 'immigrant')", name="operation"),
    CheckConstraint("dsl_hash ~ '^(jcs|raw):[0-9a-f]{64}$'", name="dsl_hash"),
    CheckConstraint(
        "CASE WHEN parents_unknown THEN parent1_id IS NOT NULL OR parent2_id IS NULL"
        " ELSE CASE WHEN operation = 'mutation' THEN parent1_id IS NOT NULL AND parent2_id IS NULL"
        " WHEN operation = 'crossover' THEN parent1_id IS NOT NULL AND parent2_id IS NOT NULL"
        " ELSE parent1_id IS NULL AND parent2_id IS NULL END END",
        name="parents",
    ),
    CheckConstraint("(dsl IS NULL) = (pruned_at IS NOT NULL)", name="pruned"),
    CheckConstraint("id NOT IN (parent1_id, parent2_id)", name="not_its_own_parent"),
    Index("ix_versions_created_at", "tenant_id", "created_at", "id"),
    Index("ix_versions_workflow_id", "tenant_id", "workflow_id", "created_at", "id"),
    Index("ix_versions_generation_id", "tenant_id", "generation_id", "created_at", "id"),
    Index("ix_versions_dsl_hash", "tenant_id", "dsl_hash"),
    Index("ix_versions_parent1_id", "tenant_id", "parent1_id"),
    Index("ix_versions_parent2_id", "tenant_id", "parent2_id"),
)

version_io = Table(
    "version_io",
    METADATA,
    tenant(),
    identity("version_id"),
    exact("io", required=True),
    revision(),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "version_id"], ["versions.tenant_id", "versions.id"], ondelete="CASCADE"),
)

node_versions = Table(
    "node_versions",
    METADATA,
    tenant(),
    identity(),
    reference("version_id", required=True),
    reference("node_id", required=True),
    Column("revision", BigInteger, nullable=False),
    words("system_prompt"),
    words("llm_model"),
    Column("tools", ARRAY(Text), nullable=False, server_default=EMPTY_LIST),
    words("description"),
    Column("handoffs", ARRAY(Text), nullable=False, server_default=EMPTY_LIST),
    Column("waiting_for", ARRAY(Text), nullable=False, server_default=EMPTY_LIST),
    searchable("memory"),
    searchable("extras", default=True),
    Column("config_hash", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "version_id"], ["versions.tenant_id", "versions.id"]),
    UniqueConstraint("tenant_id", "version_id", "node_id", "revision"),
    UniqueConstraint("tenant_id", "version_id", "node_id", "config_hash"),
    Index("ix_node_versions_created_at", "tenant_id", "created_at", "id"),
    Index("ix_node_versions_llm_model", "tenant_id", "llm_model", "created_at", "id"),
    Index("ix_node_versions_node_id", "tenant_id", "node_id", "created_at", "id"),
)

node_memories = Table(
    "node_memories",
    METADATA,
    tenant(),
    identity("version_id"),
    identity("node_id"),
    searchable("memory", default=True),
    revision(),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "version_id"], ["versions.tenant_id", "versions.id"]),
)
