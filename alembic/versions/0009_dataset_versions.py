"""Dataset versions, and what creating datasets, records and evaluators twice needs."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dataset_versions",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("dataset_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("version_label", sa.Text(), nullable=True),
        sa.Column("snapshot_metadata", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "dataset_id"],
            ["datasets.tenant_id", "datasets.id"],
            name=op.f("fk_dataset_versions_tenant_id_dataset_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "dataset_id", "id", name=op.f("pk_dataset_versions")),
    )
    op.create_index(
        "ix_dataset_versions_created_at", "dataset_versions", ["tenant_id", "dataset_id", "created_at", "id"]
    )
    op.add_column("datasets", sa.Column("digest", sa.LargeBinary(), nullable=True))
    op.create_index("ix_datasets_created_at", "datasets", ["tenant_id", "created_at", "id"])
    op.create_index("ix_datasets_owner_id", "datasets", ["tenant_id", "owner_id", "created_at", "id"])
    op.add_column("dataset_records", sa.Column("dataset_version_id", sa.Text(collation="C"), nullable=True))
    op.add_column("dataset_records", sa.Column("digest", sa.LargeBinary(), nullable=True))
    op.create_foreign_key(
        "fk_dataset_records_dataset_version_id",
        "dataset_records",
        "dataset_versions",
        ["tenant_id", "dataset_id", "dataset_version_id"],
        ["tenant_id", "dataset_id", "id"],
    )
    op.create_index(
        "ix_dataset_records_version",
        "dataset_records",
        ["tenant_id", "dataset_id", "dataset_version_id", "created_at", "id"],
    )
    op.add_column("evaluators", sa.Column("digest", sa.LargeBinary(), nullable=True))
    op.add_column(
        "evaluators",
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
    )
    op.create_index("ix_evaluators_created_at", "evaluators", ["tenant_id", "created_at", "id"])
    op.create_index("ix_evaluators_owner_id", "evaluators", ["tenant_id", "owner_id", "created_at", "id"])
    for column in ("dataset_record_id", "evaluator_id"):
        op.create_index(
            f"ix_invocations_{column}",
            "invocations",
            ["tenant_id", column],
            postgresql_where=sa.text(f"{column} IS NOT NULL"),
        )


def downgrade() -> None:
    for column in ("dataset_record_id", "evaluator_id"):
        op.drop_index(f"ix_invocations_{column}", "invocations")
    op.drop_index("ix_evaluators_owner_id", "evaluators")
    op.drop_index("ix_evaluators_created_at", "evaluators")
    op.drop_column("evaluators", "updated_at")
    op.drop_column("evaluators", "digest")
    op.drop_index("ix_dataset_records_version", "dataset_records")
    op.drop_constraint("fk_dataset_records_dataset_version_id", "dataset_records", type_="foreignkey")
    op.drop_column("dataset_records", "digest")
    op.drop_column("dataset_records", "dataset_version_id")
    op.drop_index("ix_datasets_owner_id", "datasets")
    op.drop_index("ix_datasets_created_at", "datasets")
    op.drop_column("datasets", "digest")
    op.drop_table("dataset_versions")
