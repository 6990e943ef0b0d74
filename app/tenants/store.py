"""Tenants, their limits and keys in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.shape import Shape, computed, instant, plain
from app.db.sql import Statement
from app.errors import NotFound, PreconditionFailed

TENANT = Shape(plain("id", "tenant_id"), "name", "metadata", instant("created_at"), instant("updated_at"))
KEY = Shape(
    "id", "name", "key_hint", "scopes", instant("expires_at"), instant("revoked_at"), instant("last_used_at"),
    instant("created_at"),
)  # fmt: skip
# A key that was just made: the secret's place stays empty, so that a kept answer never holds it.
MADE = Shape(*KEY.columns, computed("key", "CAST(NULL AS text)"))

KEYS = Listing(
    "api_keys",
    "api_keys AS t",
    KEY,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
)


class TenantListing(Listing):
    """The operator's list of all tenants: the only one that is not within a tenant."""

    def where(self, given: Any) -> str:  # noqa: ARG002 - the signature of every listing
        """Every tenant; the parameter stays bound."""
        return "CAST(:tenant_id AS text) IS NOT NULL"


TENANTS = TenantListing(
    "tenants",
    "tenants AS t",
    TENANT,
    sorts={"id": Sort("{t}.tenant_id", "text"), "created_at": Sort("{t}.created_at", "timestamptz")},
    default=("id", "asc"),
    ids=("t.tenant_id",),
)

OWN = Listing("tenant", TENANTS.source, TENANT, sorts=TENANTS.sorts, default=TENANTS.default, ids=TENANTS.ids)

_PUT = Statement(f"""
WITH put AS (
  INSERT INTO tenants AS t (tenant_id, name, metadata)
  SELECT :tenant_id, :name, COALESCE(:metadata, CAST('{{}}' AS jsonb))
  ON CONFLICT (tenant_id) DO UPDATE SET
    name = CASE WHEN :set_name THEN excluded.name ELSE t.name END,
    metadata = CASE WHEN :set_metadata THEN excluded.metadata ELSE t.metadata END,
    revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match)
  RETURNING t.*, old.tenant_id IS NULL AS fresh
), head AS (
  INSERT INTO event_heads (tenant_id, position) SELECT tenant_id, 0 FROM put WHERE fresh
), answer AS (
  SELECT CASE WHEN fresh THEN 201 ELSE 200 END AS status, t.revision AS etag, {TENANT.json("t")} AS body FROM put AS t
)""")
_PATCH = Statement(f"""
WITH changed AS (
  UPDATE tenants AS t SET
    name = CASE WHEN :set_name THEN :name ELSE t.name END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{{}}' AS jsonb)) ELSE t.metadata END,
    revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND (CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.*
), answer AS (SELECT 200 AS status, t.revision AS etag, {TENANT.json("t")} AS body FROM changed AS t)""")
_GET = Statement(f"SELECT t.revision, {TENANT.json('t')} AS body FROM tenants AS t WHERE t.tenant_id = :tenant_id")
_LIMITS = Statement("SELECT t.revision, t.limits AS body FROM tenants AS t WHERE t.tenant_id = :tenant_id")
_PUT_LIMITS = Statement("""
WITH changed AS (
  UPDATE tenants AS t SET limits = :limits, revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND (CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.*
), answer AS (SELECT 200 AS status, t.revision AS etag, CAST(t.limits AS json) AS body FROM changed AS t)""")
_ENSURE = Statement("""
WITH made AS (INSERT INTO tenants (tenant_id, name) SELECT :tenant_id, :name ON CONFLICT DO NOTHING RETURNING tenant_id)
INSERT INTO event_heads (tenant_id, position) SELECT tenant_id, 0 FROM made ON CONFLICT DO NOTHING""")
_CREATE_KEY = Statement(f"""
WITH made AS (
  INSERT INTO api_keys (tenant_id, id, name, key_hash, key_hint, scopes, expires_at)
  SELECT :tenant_id, COALESCE(:id, 'key_' || replace(CAST(uuidv7() AS text), '-', '')), :name, :key_hash, :key_hint,
         CAST(:scopes AS text[]), CAST(:expires_at AS timestamptz)
  RETURNING *
), answer AS (SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {MADE.json("t")} AS body FROM made AS t)""")
_REVOKE = Statement(f"""
WITH revoked AS (
  UPDATE api_keys AS t SET revoked_at = COALESCE(t.revoked_at, clock_timestamp())
  WHERE t.tenant_id = :tenant_id AND t.id = :id RETURNING t.*
), answer AS (SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {KEY.json("t")} AS body FROM revoked AS t)""")
_ROTATE = Statement(f"""
WITH rotated AS (
  UPDATE api_keys AS t SET key_hash = :key_hash, key_hint = :key_hint
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.revoked_at IS NULL RETURNING t.*
), answer AS (SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {MADE.json("t")} AS body FROM rotated AS t)""")
_KEY_SCOPES = Statement("SELECT scopes FROM api_keys WHERE tenant_id = :tenant_id AND id = :id")


async def ensure(database: Writer, tenant_id: str, name: str) -> None:
    """Make a tenant unless it exists."""
    await database.rows(_ENSURE, tenant_id=tenant_id, name=name)


async def put(writer: Writer, tenant_id: str, fields: dict[str, Any], if_match: list[int] | None) -> Answer:
    """Make the tenant, or update the fields given."""
    answer = await writer.answer(_PUT, tenant_id=tenant_id, if_match=if_match, **_members(fields))
    if answer is None:
        raise PreconditionFailed("The tenant has another revision; read it again.")
    return answer


async def patch(writer: Writer, tenant_id: str, fields: dict[str, Any], if_match: list[int] | None) -> Answer:
    """Update the fields given. Raises `NotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_PATCH, tenant_id=tenant_id, if_match=if_match, **_members(fields))
    return answer or await _why(writer, tenant_id)


def _members(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": fields.get("name"),
        "set_name": "name" in fields,
        "metadata": fields.get("metadata"),
        "set_metadata": "metadata" in fields,
    }


async def _why(reader: Reader, tenant_id: str) -> Answer:
    await get(reader, tenant_id)
    raise PreconditionFailed("The tenant has another revision; read it again.")


async def get(reader: Reader, tenant_id: str) -> Answer:
    """The tenant. Raises `NotFound`."""
    return _found(await reader.row(_GET, tenant_id=tenant_id))


async def limits(reader: Reader, tenant_id: str) -> Answer:
    """The tenant's limits. Raises `NotFound`."""
    return _found(await reader.row(_LIMITS, tenant_id=tenant_id))


def _found(row: Any) -> Answer:
    if row is None:
        raise NotFound("There is no such tenant; the operator makes one with PUT /v1/tenants/{id}.")
    return Answer(200, row["body"], row["revision"])


async def put_limits(writer: Writer, tenant_id: str, given: bytes, if_match: list[int] | None) -> Answer:
    """Replace the tenant's limits. Raises `NotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_PUT_LIMITS, tenant_id=tenant_id, limits=given, if_match=if_match)
    return answer or await _why(writer, tenant_id)


async def create_key(
    writer: Writer, tenant_id: str, key_id: str | None, name: str, secret: tuple[bytes, str], scopes: list[str],
    expires_at: datetime | None,
) -> Answer:  # fmt: skip
    """Store a key's digest. The answer does not hold the key."""
    key_hash, hint = secret
    answer = await writer.answer(
        _CREATE_KEY, tenant_id=tenant_id, id=key_id, name=name, key_hash=key_hash, key_hint=hint, scopes=scopes,
        expires_at=expires_at,
    )  # fmt: skip
    assert answer is not None
    return answer


async def revoke_key(writer: Writer, tenant_id: str, key_id: str) -> Answer:
    """Revoke a key; again is the same. Raises `NotFound`."""
    answer = await writer.answer(_REVOKE, tenant_id=tenant_id, id=key_id)
    if answer is None:
        raise NotFound("There is no such key.")
    return answer


async def rotate_key(writer: Writer, tenant_id: str, key_id: str, secret: tuple[bytes, str]) -> Answer:
    """Give a key a new secret; the old one ends within the cache's age. Raises `NotFound`."""
    answer = await writer.answer(_ROTATE, tenant_id=tenant_id, id=key_id, key_hash=secret[0], key_hint=secret[1])
    if answer is None:
        raise NotFound("There is no such key, or it is revoked.")
    return answer


async def key_scopes(reader: Reader, tenant_id: str, key_id: str) -> list[str]:
    """The scopes of a key. Raises `NotFound`."""
    row = await reader.row(_KEY_SCOPES, tenant_id=tenant_id, id=key_id)
    if row is None:
        raise NotFound("There is no such key.")
    return list(row["scopes"])
