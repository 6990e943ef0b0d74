"""Evolution runs and generations, which versions and invocations point to."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from app.db.columns import METADATA, Money, Score, identity, moment, reference, revision, searchable, tenant, words

evolution_runs = Table(
    "evolution_runs",
    METADATA,
    tenant(),
    identity(),
    words("goal_text"),
    searchable("config", default=True),
    Column("status", Text, nullable=False, server_default=text("'running'")),
    words("evolution_type"),
    words("notes"),
    reference("owner_id"),
    moment("started_at", default=True),
    moment("ended_at"),
    moment("heartbeat_at"),
    revision(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("status IN ('running', 'completed', 'failed', 'cancelled', 'interrupted')", name="status"),
    Index("ix_evolution_runs_started_at", "tenant_id", "started_at", "id"),
)

generations = Table(
    "generations",
    METADATA,
    tenant(),
    identity(),
    reference("run_id", required=True),
    Column("number", BigInteger, nullable=False),
    moment("started_at", default=True),
    moment("ended_at"),
    reference("best_version_id"),
    words("comment"),
    words("feedback"),
    Column("best_fitness", Score),
    Column("worst_fitness", Score),
    Column("avg_fitness", Score),
    Column("fitness_std_dev", Score),
    Column("evaluation_cost", Money),
    Column("evaluations_per_hour", Score),
    Column("improvement_rate", Score),
    revision(),
    ForeignKeyConstraint(["tenant_id", "run_id"], ["evolution_runs.tenant_id", "evolution_runs.id"]),
    ForeignKeyConstraint(["tenant_id", "best_version_id"], ["versions.tenant_id", "versions.id"]),
    UniqueConstraint("tenant_id", "run_id", "number"),
    CheckConstraint("number >= 0", name="number"),
)
