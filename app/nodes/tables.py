"""Node invocations, in two phases, and their actions (tool calls)."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Table,
    Text,
    text,
)

from app.db.base import METADATA, Money, exact, identity, moment, reference, revision, searchable, tenant, words

EMPTY = text("'{}'::text[]")

node_invocations = Table(
    "node_invocations",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity(),
    reference("node_id", required=True),
    reference("node_version_id", required=True),
    Column("attempt_no", BigInteger, nullable=False, server_default=text("1")),
    words("status", required=True),
    moment("started_at", default=True),
    moment("ended_at"),
    words("model"),
    exact("output"),
    words("summary"),
    words("large_summary"),
    Column("usd_cost", Money),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("files", ARRAY(Text), nullable=False, server_default=EMPTY),
    searchable("error"),
    searchable("metadata", default=True),
    searchable("extras", default=True),
    Column("digest", LargeBinary, nullable=False),
    Column("end_digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    ForeignKeyConstraint(["tenant_id", "node_version_id"], ["node_versions.tenant_id", "node_versions.id"]),
    CheckConstraint("status IN ('running', 'completed', 'failed')", name="status"),
    CheckConstraint("(status = 'running') = (ended_at IS NULL)", name="ended_when_terminal"),
    Index("ix_node_invocations_order", "tenant_id", "invocation_id", "started_at", "id"),
    Index("ix_node_invocations_started_at", "tenant_id", "started_at", "invocation_id", "id"),
    Index("ix_node_invocations_node_id", "tenant_id", "node_id", "started_at", "invocation_id", "id"),
    postgresql_with={"fillfactor": "85"},
)

actions = Table(
    "actions",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity("node_invocation_id"),
    identity(),
    Column("position", BigInteger, Identity(always=True), nullable=False),
    words("tool", required=True),
    exact("input"),
    exact("output"),
    words("status"),
    moment("started_at"),
    Column("duration_ms", Money),
    Column("exit_code", BigInteger),
    searchable("error"),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(
        ["tenant_id", "invocation_id", "node_invocation_id"],
        ["node_invocations.tenant_id", "node_invocations.invocation_id", "node_invocations.id"],
    ),
    Index("ix_actions_position", "tenant_id", "invocation_id", "node_invocation_id", "position"),
)
