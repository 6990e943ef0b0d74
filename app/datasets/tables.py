"""Datasets, their records, and evaluators, which invocations point to."""

from __future__ import annotations

from sqlalchemy import ForeignKeyConstraint, Index, Table

from app.db.columns import METADATA, exact, identity, moment, reference, revision, searchable, tenant, words

datasets = Table(
    "datasets",
    METADATA,
    tenant(),
    identity(),
    words("name", required=True),
    words("description"),
    words("data_format"),
    words("status"),
    reference("owner_id"),
    searchable("metadata", default=True),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

dataset_records = Table(
    "dataset_records",
    METADATA,
    tenant(),
    identity(),
    reference("dataset_id", required=True),
    exact("workflow_input"),
    exact("ground_truth"),
    searchable("output_schema"),
    searchable("rubric"),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "dataset_id"], ["datasets.tenant_id", "datasets.id"]),
    Index("ix_dataset_records_created_at", "tenant_id", "dataset_id", "created_at", "id"),
)

evaluators = Table(
    "evaluators",
    METADATA,
    tenant(),
    identity(),
    words("name", required=True),
    searchable("config"),
    searchable("rubric"),
    reference("owner_id"),
    revision(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)
