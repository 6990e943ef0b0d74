"""Invocations: one run of a version. Every sort of the list, and `started_at` under five filters, has an index."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Computed, ForeignKeyConstraint, Index, LargeBinary, Table, text

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

# Whatever else a status is, also one of a later release, is an end.
OPEN = ("queued", "running")

invocations = Table(
    "invocations",
    METADATA,
    tenant(),
    identity(),
    reference("version_id", required=True),
    reference("workflow_id", required=True),
    reference("parent_invocation_id"),
    reference("run_id"),
    reference("generation_id"),
    reference("dataset_record_id"),
    reference("evaluator_id"),
    reference("submission_id"),
    reference("session_id"),
    # A cursor of the list may hold it, so it compares bytewise, as ids do.
    Column("status", IdText, nullable=False),
    moment("started_at"),
    moment("ended_at"),
    moment("heartbeat_at"),
    moment("cancel_requested_at"),
    exact("input"),
    exact("output"),
    words("expected_output"),
    searchable("expected_output_type"),
    words("actual_output"),
    Column("usd_cost", Money),
    exact("fitness"),
    Column("fitness_score", Score),
    Column("accuracy", Score),
    Column("novelty", Score),
    words("feedback"),
    words("preparation"),
    searchable("error"),
    searchable("metadata", default=True),
    searchable("extras", default=True),
    Column(
        "duration_seconds",
        Score,
        Computed("EXTRACT(epoch FROM (ended_at - started_at))::double precision", persisted=True),
    ),
    Column("digest", LargeBinary, nullable=False),
    Column("end_digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id", "version_id"], ["versions.tenant_id", "versions.id"]),
    ForeignKeyConstraint(["tenant_id", "workflow_id"], ["workflows.tenant_id", "workflows.id"]),
    ForeignKeyConstraint(["tenant_id", "parent_invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    ForeignKeyConstraint(["tenant_id", "run_id"], ["evolution_runs.tenant_id", "evolution_runs.id"]),
    ForeignKeyConstraint(["tenant_id", "generation_id"], ["generations.tenant_id", "generations.id"]),
    ForeignKeyConstraint(["tenant_id", "dataset_record_id"], ["dataset_records.tenant_id", "dataset_records.id"]),
    ForeignKeyConstraint(["tenant_id", "evaluator_id"], ["evaluators.tenant_id", "evaluators.id"]),
    CheckConstraint(
        "status IN ('queued', 'running', 'completed', 'failed', 'cancelled', 'rolled_back')", name="status"
    ),
    CheckConstraint("(status IN ('queued', 'running')) = (ended_at IS NULL)", name="ended_when_terminal"),
    CheckConstraint("status <> 'queued' OR started_at IS NULL", name="queued_not_started"),
    CheckConstraint("status <> 'running' OR started_at IS NOT NULL", name="running_is_started"),
    Index("ix_invocations_started_at", "tenant_id", "started_at", "id"),
    Index("ix_invocations_ended_at", "tenant_id", "ended_at", "id"),
    Index("ix_invocations_usd_cost", "tenant_id", "usd_cost", "id"),
    Index("ix_invocations_fitness_score", "tenant_id", "fitness_score", "id"),
    Index("ix_invocations_accuracy", "tenant_id", "accuracy", "id"),
    Index("ix_invocations_duration", "tenant_id", "duration_seconds", "id"),
    Index("ix_invocations_status_id", "tenant_id", "status", "id"),
    Index("ix_invocations_workflow_id", "tenant_id", "workflow_id", "started_at", "id"),
    Index("ix_invocations_version_id", "tenant_id", "version_id", "started_at", "id"),
    Index("ix_invocations_run_id", "tenant_id", "run_id", "started_at", "id"),
    Index("ix_invocations_generation_id", "tenant_id", "generation_id", "started_at", "id"),
    Index("ix_invocations_status", "tenant_id", "status", "started_at", "id"),
    Index("ix_invocations_session_id", "tenant_id", "session_id", "started_at", "id"),
    Index("ix_invocations_parent", "tenant_id", "parent_invocation_id"),
    # For those that refer to a record or an evaluator that is to be deleted; most rows name none.
    Index(
        "ix_invocations_dataset_record_id",
        "tenant_id",
        "dataset_record_id",
        postgresql_where=text("dataset_record_id IS NOT NULL"),
    ),
    Index(
        "ix_invocations_evaluator_id", "tenant_id", "evaluator_id", postgresql_where=text("evaluator_id IS NOT NULL")
    ),
    postgresql_with={"fillfactor": "80"},
)
