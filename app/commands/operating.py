"""The operator's way to the database: straight, with few connections, and only on the right schema."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from app.bus.hints import Key
from app.db.database import Database
from app.db.probe import revision_now
from app.db.revision import Revision
from app.db.sql import Statement
from app.errors import Unavailable
from app.settings import DatabaseSettings, NatsSettings
from app.tenants import store
from app.tenants.keys import digest, new_key

CONNECT_SECONDS = 10
EVERY_SCOPE = ("admin", "*:read", "*:write")
_TENANT = Statement("SELECT tenant_id FROM tenants WHERE tenant_id = :tenant_id")
_USABLE = Statement(
    "SELECT id FROM api_keys WHERE tenant_id = :tenant_id AND key_hash = :key_hash AND revoked_at IS NULL"
    " AND (expires_at IS NULL OR expires_at > clock_timestamp())"
)
_LISTED = Statement(
    "SELECT tenant_id, id, name, key_hint, scopes, created_at, last_used_at, expires_at, revoked_at FROM api_keys"
    " WHERE CAST(:tenant_id AS text) IS NULL OR tenant_id = :tenant_id"
    " ORDER BY tenant_id, created_at, id LIMIT 10000"
)


async def revision(settings: DatabaseSettings) -> Revision:
    """The schema revision of the database of the settings. Raises `Unavailable` when it does not answer."""
    return await revision_now(settings, CONNECT_SECONDS)


async def require_schema(settings: DatabaseSettings) -> None:
    """Raise `SchemaRefused` unless the database has the schema of this code, `Unavailable` where it is away."""
    (await revision(settings)).require()


@asynccontextmanager
async def operating(settings: DatabaseSettings) -> AsyncIterator[Database]:
    """The database, for one command. Raises `SchemaRefused`, `Unavailable`."""
    await require_schema(settings)
    database = await Database.open(settings.model_copy(update={"pool_min": 0, "pool_max": 2}), name="cairn-operator")
    try:
        yield database
    finally:
        await database.close()


async def tenant_exists(database: Database, tenant_id: str) -> bool:
    """Whether there is such a tenant."""
    return await database.row(_TENANT, tenant_id=tenant_id) is not None


async def key_is_usable(database: Database, tenant_id: str, key: str) -> bool:
    """Whether a key opens the tenant now."""
    return await database.row(_USABLE, tenant_id=tenant_id, key_hash=digest(key)) is not None


async def make_key(
    database: Database, tenant_id: str, name: str, scopes: list[str], expires_at: datetime | None = None
) -> tuple[str, dict[str, Any]]:
    """A new key of a tenant, and its row."""
    key, key_hash, hint = new_key()
    answer = await store.create_key(
        database.once(tenant_id), tenant_id, None, name, (key_hash, hint), scopes, expires_at
    )
    return key, json.loads(answer.body or b"{}")


async def keys_of(database: Database, tenant_id: str | None) -> list[Any]:
    """The keys of a tenant, or of all."""
    return await database.rows(_LISTED, tenant_id=tenant_id)


async def tell(settings: NatsSettings, key: Key) -> None:
    """Tell every process that something moved. Raises `Unavailable` where there is no NATS, or it does not answer."""
    if settings.url is None:
        raise Unavailable("No NATS is configured (CAIRN_NATS__URL).")
    from app.bus.nats import NatsHints  # noqa: PLC0415 - its client, which most commands do not need

    hints = NatsHints(settings.url.get_secret_value(), settings.subject_prefix)
    await hints.open()
    hints.publish(key)
    await hints.close()
