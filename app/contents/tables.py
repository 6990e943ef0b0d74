"""Contents: bytes of any size behind a number, in chunks, each with its own digest."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Identity, Integer, LargeBinary, Table

from app.db.columns import METADATA, moment, tenant

contents = Table(
    "contents",
    METADATA,
    tenant(),
    Column("number", BigInteger, Identity(always=True), primary_key=True, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("chunk_bytes", Integer, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("size_bytes >= 0", name="size_bytes"),
    CheckConstraint("octet_length(digest) = 32", name="digest"),
    CheckConstraint("chunk_bytes > 0", name="chunk_bytes"),
)

# Stored outside of the row and never compressed (the migration says so): a chunk of an image would not shrink.
content_chunks = Table(
    "content_chunks",
    METADATA,
    tenant(),
    Column("content_number", BigInteger, primary_key=True, autoincrement=False, nullable=False),
    Column("position", Integer, primary_key=True, autoincrement=False, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant_id", "content_number"], ["contents.tenant_id", "contents.number"]),
    CheckConstraint("position >= 0", name="position"),
    CheckConstraint("octet_length(digest) = 32", name="digest"),
)
