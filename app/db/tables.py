"""The decisions behind the schema, as rows that migrations add."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from app.db.columns import METADATA, moment

schema_decisions = Table(
    "schema_decisions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("revision_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("reason", Text, nullable=False),
    moment("decided_at", default=True),
)
