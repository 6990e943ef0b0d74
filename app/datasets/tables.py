"""Datasets with their versions and records, and evaluators; invocations point to both."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, LargeBinary, Table

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
    Column("digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("ix_datasets_created_at", "tenant_id", "created_at", "id"),
    Index("ix_datasets_owner_id", "tenant_id", "owner_id", "created_at", "id"),
)

# Identified within their dataset, so that a record can only name a version of its own.
dataset_versions = Table(
    "dataset_versions",
    METADATA,
    tenant(),
    identity("dataset_id"),
    identity(),
    words("name"),
    words("version_label"),
    searchable("snapshot_metadata"),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "dataset_id"], ["datasets.tenant_id", "datasets.id"]),
    Index("ix_dataset_versions_created_at", "tenant_id", "dataset_id", "created_at", "id"),
)

dataset_records = Table(
    "dataset_records",
    METADATA,
    tenant(),
    identity(),
    reference("dataset_id", required=True),
    reference("dataset_version_id"),
    exact("workflow_input"),
    exact("ground_truth"),
    searchable("output_schema"),
    searchable("rubric"),
    Column("digest", LargeBinary),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "dataset_id"], ["datasets.tenant_id", "datasets.id"]),
    ForeignKeyConstraint(
        ["tenant_id", "dataset_id", "dataset_version_id"],
        ["dataset_versions.tenant_id", "dataset_versions.dataset_id", "dataset_versions.id"],
        name="fk_dataset_records_dataset_version_id",
    ),
    Index("ix_dataset_records_created_at", "tenant_id", "dataset_id", "created_at", "id"),
    Index("ix_dataset_records_version", "tenant_id", "dataset_id", "dataset_version_id", "created_at", "id"),
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
    Column("digest", LargeBinary),
    revision(),
    moment("created_at", default=True),
    moment("updated_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    Index("ix_evaluators_created_at", "tenant_id", "created_at", "id"),
    Index("ix_evaluators_owner_id", "tenant_id", "owner_id", "created_at", "id"),
)
