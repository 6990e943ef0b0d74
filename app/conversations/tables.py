"""Stream paths: the names of conversations, each stored once behind a number."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Identity, Table, UniqueConstraint

from app.db.columns import METADATA, IdText, tenant

stream_paths = Table(
    "stream_paths",
    METADATA,
    tenant(),
    Column("number", BigInteger, Identity(always=True), primary_key=True, nullable=False),
    Column("path", IdText, nullable=False),
    UniqueConstraint("tenant_id", "path"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("octet_length(path) BETWEEN 1 AND 1024", name="path"),
)
