"""Kept answers, one for each Idempotency-Key, in the transaction of the effect they answer for."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table
from sqlalchemy.dialects.postgresql import JSON

from app.db.columns import METADATA, identity, moment, tenant

idempotency_keys = Table(
    "idempotency_keys",
    METADATA,
    tenant(),
    identity("key"),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", BigInteger, nullable=False),
    Column("etag", BigInteger),
    Column("body", JSON),
    moment("created_at", default=True),
    Index("ix_idempotency_keys_created_at", "created_at"),
)
