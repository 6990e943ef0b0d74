"""Contents in chunks, and the attachments that they are of."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def _created_at() -> sa.Column[sa.DateTime]:
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
    )


def upgrade() -> None:
    op.create_table(
        "contents",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("chunk_bytes", sa.Integer(), nullable=False),
        _created_at(),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_contents_size_bytes")),
        sa.CheckConstraint("octet_length(digest) = 32", name=op.f("ck_contents_digest")),
        sa.CheckConstraint("chunk_bytes > 0", name=op.f("ck_contents_chunk_bytes")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_contents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "number", name=op.f("pk_contents")),
    )
    op.create_table(
        "content_chunks",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("content_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("bytes", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_content_chunks_position")),
        sa.CheckConstraint("octet_length(digest) = 32", name=op.f("ck_content_chunks_digest")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "content_number"],
            ["contents.tenant_id", "contents.number"],
            name=op.f("fk_content_chunks_tenant_id_content_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "content_number", "position", name=op.f("pk_content_chunks")),
    )
    # Images and archives are compressed already: trying it once more costs time and gains nothing.
    op.execute("ALTER TABLE content_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL")
    op.create_table(
        "attachments",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("path_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("content_number", sa.BigInteger(), nullable=False),
        sa.Column("conversation_id", sa.Text(collation="C"), nullable=False),
        sa.Column("mime_type", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=True),
        _created_at(),
        sa.ForeignKeyConstraint(
            ["tenant_id", "path_number"],
            ["stream_paths.tenant_id", "stream_paths.number"],
            name=op.f("fk_attachments_tenant_id_path_number"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "content_number"],
            ["contents.tenant_id", "contents.number"],
            name=op.f("fk_attachments_tenant_id_content_number"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "path_number", "id", name=op.f("pk_attachments")),
        sa.UniqueConstraint("tenant_id", "content_number", name=op.f("uq_attachments_tenant_id_content_number")),
        sa.UniqueConstraint(
            "tenant_id",
            "path_number",
            "content_number",
            name=op.f("uq_attachments_tenant_id_path_number_content_number"),
        ),
    )


def downgrade() -> None:
    op.drop_table("attachments")
    op.drop_table("content_chunks")
    op.drop_table("contents")
