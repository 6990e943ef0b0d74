"""Evolution runs, their generations, who was in each, and the checkpoints that engines resume from."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from app.db.columns import (
    METADATA,
    IdText,
    Money,
    Score,
    exact,
    identity,
    moment,
    reference,
    revision,
    searchable,
    tenant,
    words,
)

evolution_runs = Table(
    "evolution_runs",
    METADATA,
    tenant(),
    identity(),
    words("goal_text"),
    searchable("config", default=True),
    # A cursor of the list may hold it, so it compares bytewise, as ids do.
    Column("status", IdText, nullable=False, server_default=text("'running'")),
    words("evolution_type"),
    words("notes"),
    reference("owner_id"),
    moment("started_at", default=True),
    moment("ended_at"),
    moment("heartbeat_at"),
    Column("digest", LargeBinary),
    Column("end_digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("status IN ('running', 'completed', 'failed', 'cancelled', 'interrupted')", name="status"),
    CheckConstraint("(status = 'running') = (ended_at IS NULL)", name="ended_when_terminal"),
    Index("ix_evolution_runs_started_at", "tenant_id", "started_at", "id"),
)

run_checkpoints = Table(
    "run_checkpoints",
    METADATA,
    tenant(),
    identity("run_id"),
    exact("state", required=True),
    revision(),
    moment("updated_at", default=True),
    ForeignKeyConstraint(
        ["tenant_id", "run_id"], ["evolution_runs.tenant_id", "evolution_runs.id"], ondelete="CASCADE"
    ),
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
    # Its run was left by its worker while it was open; it is not complete.
    moment("interrupted_at"),
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
    Column("digest", LargeBinary),
    Column("end_digest", LargeBinary),
    revision(),
    ForeignKeyConstraint(["tenant_id", "run_id"], ["evolution_runs.tenant_id", "evolution_runs.id"]),
    # Versions are made in generations, and a generation names its best version: this closes that circle.
    ForeignKeyConstraint(["tenant_id", "best_version_id"], ["versions.tenant_id", "versions.id"], use_alter=True),
    UniqueConstraint("tenant_id", "run_id", "number"),
    CheckConstraint("number >= 0", name="number"),
    Index(
        "ix_generations_best_version_id",
        "tenant_id",
        "best_version_id",
        postgresql_where=text("best_version_id IS NOT NULL"),
    ),
)

generation_members = Table(
    "generation_members",
    METADATA,
    tenant(),
    identity("generation_id"),
    identity("version_id"),
    Column("rank", BigInteger),
    Column("fitness", Score),
    ForeignKeyConstraint(
        ["tenant_id", "generation_id"], ["generations.tenant_id", "generations.id"], ondelete="CASCADE"
    ),
    ForeignKeyConstraint(["tenant_id", "version_id"], ["versions.tenant_id", "versions.id"], ondelete="CASCADE"),
    Index("ix_generation_members_version_id", "tenant_id", "version_id"),
)
