"""Evaluations: what an evaluator said of an invocation, as often as it was asked."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, LargeBinary, Table

from app.db.columns import METADATA, Score, identity, moment, reference, searchable, tenant, words

evaluations = Table(
    "evaluations",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity(),
    reference("evaluator_id"),
    Column("score", Score),
    Column("accuracy", Score),
    searchable("rubric"),
    words("feedback"),
    searchable("metadata", default=True),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    ForeignKeyConstraint(["tenant_id", "evaluator_id"], ["evaluators.tenant_id", "evaluators.id"]),
    Index("ix_evaluations_created_at", "tenant_id", "invocation_id", "created_at", "id"),
    Index("ix_evaluations_evaluator_id", "tenant_id", "evaluator_id"),
)
