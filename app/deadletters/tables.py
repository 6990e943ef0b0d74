"""Dead letters: what was given up, of whichever source, with the reason."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Index, Table, text

from app.db.columns import METADATA, IdText, moment, reference, tenant, words

LETTER_ID = text("'dl_' || replace(uuidv7()::text, '-', '')")

dead_letters = Table(
    "dead_letters",
    METADATA,
    tenant(),
    Column("id", IdText, primary_key=True, nullable=False, server_default=LETTER_ID),
    Column("source", IdText, nullable=False),
    reference("subject", required=True),
    Column("reason", IdText, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    words("last_error"),
    moment("created_at", default=True),
    # When the bus was told of it; only letters of webhooks are told there.
    moment("announced_at"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("source IN ('submission', 'webhook')", name="source"),
    Index("ix_dead_letters_created_at", "tenant_id", "created_at", "id"),
    Index("ix_dead_letters_source", "tenant_id", "source", "created_at", "id"),
    Index("ix_dead_letters_subject", "tenant_id", "subject"),
    Index(
        "ix_dead_letters_unannounced",
        "created_at",
        postgresql_where=text("announced_at IS NULL AND source = 'webhook'"),
    ),
)
