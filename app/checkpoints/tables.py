"""Checkpoints: the state of an invocation after a step, numbered within it."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, LargeBinary, Table

from app.db.columns import METADATA, exact, identity, moment, reference, tenant

checkpoints = Table(
    "checkpoints",
    METADATA,
    tenant(),
    identity("invocation_id"),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    reference("node_id"),
    exact("state"),
    Column("digest", LargeBinary, nullable=False),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    CheckConstraint("number BETWEEN 0 AND 9007199254740991", name="number"),
)
