"""Messages between the nodes of an invocation, in the order of their sequence numbers."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, LargeBinary, Sequence, Table

from app.db.columns import METADATA, exact, identity, moment, reference, revision, tenant, words

message_seq = Sequence("message_seq", metadata=METADATA, data_type=BigInteger)

messages = Table(
    "messages",
    METADATA,
    tenant(),
    identity("invocation_id"),
    identity(),
    Column("seq", BigInteger, nullable=False),
    reference("from_node_id"),
    reference("to_node_id"),
    reference("origin_node_invocation_id"),
    reference("target_node_invocation_id"),
    words("role", required=True),
    exact("payload"),
    Column("digest", LargeBinary, nullable=False),
    revision(),
    moment("created_at", default=True),
    ForeignKeyConstraint(["tenant_id", "invocation_id"], ["invocations.tenant_id", "invocations.id"]),
    Index("ix_messages_seq", "tenant_id", "invocation_id", "seq", "id"),
    postgresql_with={"fillfactor": "95"},
)
