"""Tenants, their limits and keys in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, plain
from app.db.sql import load
from app.errors import NotFound, changed
from app.tenants.errors import TenantLeaving

TENANT = Shape(
    plain("id", "tenant_id"), "name", "metadata", instant("created_at"), instant("updated_at"), instant("closed_at")
)
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


TENANTS = Listing(
    "tenants",
    "tenants AS t",
    TENANT,
    sorts={"id": Sort("{t}.tenant_id", "text"), "created_at": Sort("{t}.created_at", "timestamptz")},
    default=("id", "asc"),
    ids=("t.tenant_id",),
    of_all=True,
)
OWN = Listing("tenant", TENANTS.source, TENANT, sorts=TENANTS.sorts, default=TENANTS.default, ids=TENANTS.ids)

_SQL = load(__file__, tenant=TENANT.json("t"), key=KEY.json("t"), made_key=MADE.json("t"))


async def ensure(database: Writer, tenant_id: str, name: str) -> None:
    """Make a tenant unless it exists."""
    await database.rows(_SQL["ensure"], tenant_id=tenant_id, name=name)


async def require_staying(reader: Reader, tenant_id: str) -> None:
    """Raise `TenantLeaving` while a tenant of this id is on its way out."""
    leaving = await reader.row(_SQL["leaving"], tenant_id=tenant_id)
    if leaving is not None and leaving["leaving"]:
        raise TenantLeaving("A tenant of this id is on its way out; make it anew once its offboarding is completed.")


async def put(
    writer: Writer, tenant_id: str, fields: dict[str, Any], if_match: list[int] | None, *, may_create: bool
) -> Answer:
    """Make the tenant if that is allowed, or update the fields given. Raises `PreconditionFailed`, `TenantLeaving`."""

    async def why() -> None:
        await require_staying(writer, tenant_id)
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id)
        if stored is None and not may_create:
            raise changed("tenant", None)
        if stored is not None and if_match is not None and stored["revision"] not in if_match:
            raise changed("tenant", stored["revision"])

    return await decided(
        writer, _SQL["put"], why, tenant_id=tenant_id, if_match=if_match, may_create=may_create, **_members(fields)
    )


async def patch(writer: Writer, tenant_id: str, fields: dict[str, Any], if_match: list[int] | None) -> Answer:
    """Update the fields given. Raises `NotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_SQL["patch"], tenant_id=tenant_id, if_match=if_match, **_members(fields))
    return answer or await _why(writer, tenant_id)


def _members(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": fields.get("name"),
        "set_name": "name" in fields,
        "metadata": fields.get("metadata"),
        "set_metadata": "metadata" in fields,
    }


async def _why(reader: Reader, tenant_id: str) -> NoReturn:
    current = await get(reader, tenant_id)
    raise changed("tenant", current.etag)


async def get(reader: Reader, tenant_id: str) -> Answer:
    """The tenant. Raises `NotFound`."""
    return _found(await reader.row(_SQL["get"], tenant_id=tenant_id))


async def limits(reader: Reader, tenant_id: str) -> Answer:
    """The tenant's limits. Raises `NotFound`."""
    return _found(await reader.row(_SQL["limits"], tenant_id=tenant_id))


def _found(row: Any) -> Answer:
    if row is None:
        raise NotFound("There is no such tenant; the operator makes one with PUT /v1/tenants/{id}.")
    return Answer(200, row["body"], row["revision"])


async def put_limits(writer: Writer, tenant_id: str, given: bytes, if_match: list[int] | None) -> Answer:
    """Replace the tenant's limits. Raises `NotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_SQL["put_limits"], tenant_id=tenant_id, limits=given, if_match=if_match)
    return answer or await _why(writer, tenant_id)


async def create_key(
    writer: Writer, tenant_id: str, key_id: str | None, name: str, secret: tuple[bytes, str], scopes: list[str],
    expires_at: datetime | None,
) -> Answer:  # fmt: skip
    """Store a key's digest. The answer does not hold the key."""
    key_hash, hint = secret
    answer = await writer.answer(
        _SQL["create_key"], tenant_id=tenant_id, id=key_id, name=name, key_hash=key_hash, key_hint=hint, scopes=scopes,
        expires_at=expires_at,
    )  # fmt: skip
    assert answer is not None
    return answer


async def revoke_key(writer: Writer, tenant_id: str, key_id: str) -> Answer:
    """Revoke a key; again is the same. Raises `NotFound`."""
    answer = await writer.answer(_SQL["revoke_key"], tenant_id=tenant_id, id=key_id)
    if answer is None:
        raise NotFound("There is no such key.")
    return answer


async def rotate_key(writer: Writer, tenant_id: str, key_id: str, secret: tuple[bytes, str]) -> Answer:
    """Give a key a new secret; the old one ends within the cache's age. Raises `NotFound`."""
    answer = await writer.answer(
        _SQL["rotate_key"], tenant_id=tenant_id, id=key_id, key_hash=secret[0], key_hint=secret[1]
    )
    if answer is None:
        raise NotFound("There is no such key, or it is revoked.")
    return answer


async def key_scopes(reader: Reader, tenant_id: str, key_id: str) -> list[str]:
    """The scopes of a key. Raises `NotFound`."""
    row = await reader.row(_SQL["key_scopes"], tenant_id=tenant_id, id=key_id)
    if row is None:
        raise NotFound("There is no such key.")
    return list(row["scopes"])
