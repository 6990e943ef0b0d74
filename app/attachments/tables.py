"""Attachments: what the bytes of a content are, under a stream path and an id."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Table, UniqueConstraint

from app.db.columns import METADATA, identity, moment, reference, tenant, words

attachments = Table(
    "attachments",
    METADATA,
    tenant(),
    Column("path_number", BigInteger, primary_key=True, autoincrement=False, nullable=False),
    identity(),
    Column("content_number", BigInteger, nullable=False),
    reference("conversation_id", required=True),
    words("mime_type", required=True),
    words("filename"),
    moment("created_at", default=True),
    UniqueConstraint("tenant_id", "content_number"),
    UniqueConstraint("tenant_id", "path_number", "content_number"),
    ForeignKeyConstraint(["tenant_id", "path_number"], ["stream_paths.tenant_id", "stream_paths.number"]),
    ForeignKeyConstraint(["tenant_id", "content_number"], ["contents.tenant_id", "contents.number"]),
)
