"""Tenants, their keys, kept answers, and the schema's own decisions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


DECISIONS = [
    {
        "id": "tenant-first",
        "title": "The tenant is first in every key",
        "decision": "Primary keys are (tenant_id, ...) and foreign keys carry the tenant.",
        "reason": "Two tenants may use the same id, and no row can point across.",
    },
    {
        "id": "verbatim-json",
        "title": "Opaque payloads are json, not jsonb",
        "decision": "Payloads that are only kept and returned are of type json; what is filtered on is jsonb.",
        "reason": "json keeps the text byte for byte; jsonb reorders keys and changes numbers.",
    },
    {
        "id": "bytewise-ids",
        "title": "Ids compare bytewise",
        "decision": "Id columns have COLLATE C.",
        "reason": "Order and equality are the same on every server and never change with a library.",
    },
]
CLAIM_KEY = """
CREATE FUNCTION cairn_claim_key(claimed_tenant text, claimed_key text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- The lock lasts to the end of the transaction, so a twin of this request cannot run beside it.
  IF NOT pg_try_advisory_xact_lock(hashtextextended(claimed_tenant || chr(31) || claimed_key, 24301)) THEN
    RAISE EXCEPTION 'a request with this key is running' USING ERRCODE = 'CA001';
  END IF;
  IF EXISTS (SELECT FROM idempotency_keys WHERE tenant_id = claimed_tenant AND key = claimed_key) THEN
    RAISE EXCEPTION 'the answer to this key is kept' USING ERRCODE = 'CA002';
  END IF;
  RETURN true;
END $$
"""
INCOMPLETE = """
CREATE FUNCTION cairn_whole(done bigint, wanted bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- A set-based write that another writer overtook is undone as a whole; the service tries again.
  IF done <> wanted THEN
    RAISE EXCEPTION 'only % of % rows', done, wanted USING ERRCODE = 'CA003';
  END IF;
  RETURN true;
END $$
"""
TAKEN = """
CREATE FUNCTION cairn_taken(ids text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- A set-based write that met rows created with other fields is undone as a whole; DETAIL names their ids.
  RAISE EXCEPTION 'ids are taken' USING ERRCODE = 'CA004', DETAIL = array_to_json(ids)::text;
END $$
"""
MERGE_PATCH = """
CREATE FUNCTION cairn_merge_patch(target jsonb, patch jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(patch) IS DISTINCT FROM 'object' THEN patch ELSE (
    SELECT COALESCE(jsonb_object_agg(member.key, member.value), '{}'::jsonb) FROM (
      SELECT kept.key, kept.value
      FROM jsonb_each(CASE WHEN jsonb_typeof(target) = 'object' THEN target ELSE '{}'::jsonb END) AS kept
      WHERE NOT patch ? kept.key
      UNION ALL
      SELECT changed.key, cairn_merge_patch(
        CASE WHEN jsonb_typeof(target) = 'object' THEN target -> changed.key END, changed.value)
      FROM jsonb_each(patch) AS changed
      WHERE changed.value <> 'null'::jsonb
    ) AS member
  ) END
$$
"""


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    for function in (CLAIM_KEY, INCOMPLETE, TAKEN, MERGE_PATCH):
        op.execute(function)

    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "limits", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint("tenant_id ~ '^[a-z0-9_-]{1,64}$'", name=op.f("ck_tenants_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "api_keys",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("key_hint", sa.Text(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("octet_length(key_hash) = 32", name=op.f("ck_api_keys_key_hash_is_sha256")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_api_keys")),
    )
    op.create_index("ix_api_keys_created_at", "api_keys", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("uq_api_keys_key_hash", "api_keys", ["key_hash"], unique=True)
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.BigInteger(), nullable=True),
        sa.Column("body", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("tenant_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "schema_decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("revision_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "decided_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_decisions")),
    )

    for decision in DECISIONS:
        op.execute(
            sa.text(
                "INSERT INTO schema_decisions (id, revision_id, title, decision, reason)"
                " VALUES (:id, '0001', :title, :decision, :reason)"
            ).bindparams(**decision)
        )


def downgrade() -> None:
    op.drop_table("schema_decisions")
    op.drop_table("idempotency_keys")
    op.drop_table("api_keys")
    op.drop_table("tenants")
    op.execute("DROP FUNCTION cairn_claim_key(text, text)")
    op.execute("DROP FUNCTION cairn_whole(bigint, bigint)")
    op.execute("DROP FUNCTION cairn_taken(text[])")
    op.execute("DROP FUNCTION cairn_merge_patch(jsonb, jsonb)")
