"""Finds the caller behind a key: a random secret, stored as SHA-256, trusted for seconds without asking again."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from app.bus.hints import Key
from app.cache.cache import Read, unseen
from app.cache.flights import Flights
from app.db.database import Database
from app.db.sql import Statement
from app.errors import Forbidden, NotFound, Unauthenticated
from app.http.caller import TENANT_ID, Caller, Rate
from app.settings import AuthSettings
from app.tenants.errors import TenantClosed

PREFIX = "cairn_"
DEFAULT_TENANT = "default"
CACHED_MAX = 10_000
KIND = "keys"

_FIND = Statement(
    "SELECT k.tenant_id, k.id, k.scopes, t.limits, t.closed_at IS NOT NULL AS closed,"
    " CAST(EXTRACT(epoch FROM k.expires_at - clock_timestamp()) AS float8) AS seconds_left"
    " FROM api_keys AS k JOIN tenants AS t USING (tenant_id)"
    " WHERE k.key_hash = :key_hash AND k.revoked_at IS NULL"
    " AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"
)
_TENANT = Statement("SELECT closed_at IS NOT NULL AS closed FROM tenants WHERE tenant_id = :tenant_id")
# SKIP LOCKED: a key that is being changed, in a batch perhaps, holds up no other; its next use is written down.
_USED = Statement(
    "WITH used AS MATERIALIZED ("
    " SELECT k.tenant_id, k.id, clock_timestamp() - make_interval(secs => given.age) AS used_at"
    " FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS text[]), CAST(:used AS float8[]))"
    " AS given (tenant_id, id, age) JOIN api_keys AS k ON k.tenant_id = given.tenant_id AND k.id = given.id"
    " FOR NO KEY UPDATE OF k SKIP LOCKED)"
    " UPDATE api_keys AS k SET last_used_at = u.used_at FROM used AS u"
    " WHERE k.tenant_id = u.tenant_id AND k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.used_at)"
)


def new_key() -> tuple[str, bytes, str]:
    """A fresh key, its digest, and the hint that lists may show."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, digest(key), key[: len(PREFIX) + 4] + "…"


def digest(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).digest()


def key_of(tenant_id: str) -> Key:
    """What is told when a tenant's keys or limits have changed."""
    return Key(KIND, tenant_id, "")


@dataclass
class Keys:
    """The authenticator of API keys. A look-up costs no round trip while its answer is younger than the cache's age.

    What is known here is known to this process alone. A change is heard by all of them at once, and where it is not,
    they ask again after that age.
    """

    database: Database
    settings: AuthSettings
    read: Read = unseen
    _flights: Flights = field(default_factory=Flights)
    # How many changes were heard: what was asked before one is not kept after it.
    _changes: int = 0
    _cached: dict[bytes, tuple[float, Caller]] = field(default_factory=dict)
    _tenants: dict[str, float] = field(default_factory=dict)
    _used: dict[tuple[str, str], float] = field(default_factory=dict)

    async def caller(self, authorization: str | None, tenant: str | None) -> Caller:
        """Who calls. Raises `Unauthenticated`, `Forbidden` (another tenant named), `TenantClosed`, `NotFound`."""
        if self.settings.mode == "off":
            try:
                return await self._operator(tenant or DEFAULT_TENANT)
            except (TenantClosed, NotFound):
                if tenant is not None:
                    raise
                # Whoever closed it still sees it leave, or opens it again.
                return await self._operator(None)
        key = _bearer(authorization)
        admin = self.settings.admin_key
        if admin is not None and hmac.compare_digest(key.encode(), admin.get_secret_value().encode()):
            return await self._operator(tenant)
        caller = await self._known(digest(key))
        if tenant is not None and tenant != caller.tenant_id:
            raise Forbidden("The key belongs to another tenant than the one in X-Tenant-Id.")
        return caller

    async def _operator(self, tenant: str | None) -> Caller:
        if tenant is not None and time.monotonic() >= self._tenants.get(tenant, 0):
            found = None
            if re.fullmatch(TENANT_ID, tenant):
                # As with keys: many who come at once ask once.
                ask = partial(self.database.row, _TENANT, tenant_id=tenant)
                found = await self._flights.one((tenant, self._changes), ask)
            if found is None:
                raise NotFound("There is no such tenant; the operator makes one with PUT /v1/tenants/{id}.")
            if found["closed"]:
                raise _closed()
            _bound(self._tenants)
            self._tenants[tenant] = time.monotonic() + self.settings.cache_seconds
        return Caller(tenant, None, frozenset({"admin"}), operator=True)

    async def _known(self, key_hash: bytes) -> Caller:
        now = time.monotonic()
        cached = self._cached.get(key_hash)
        self.read(KIND, "hit" if cached is not None and cached[0] > now else "miss")
        if cached is not None and cached[0] > now:
            caller = cached[1]
        else:
            # Many who come with one key ask once; who comes after a change does not join who asked before it.
            found = await self._flights.one((key_hash, self._changes), partial(self._find, key_hash))
            if found is None:
                raise Unauthenticated("The key is unknown, expired or revoked.", headers=_CHALLENGE)
            caller = found
        assert caller.tenant_id is not None
        assert caller.key_id is not None
        self._used[caller.tenant_id, caller.key_id] = now
        return caller

    async def _find(self, key_hash: bytes) -> Caller | None:
        # The age counts from before the question: what is changed while it is answered is not known for longer.
        asked_at, changes = time.monotonic(), self._changes
        found = await self.database.row(_FIND, key_hash=key_hash)
        if found is None:
            self._cached.pop(key_hash, None)
            return None
        if found["closed"]:
            raise _closed()
        read_rate, write_rate = _rates(found["limits"])
        caller = Caller(
            found["tenant_id"], found["id"], frozenset(found["scopes"]), read_rate=read_rate, write_rate=write_rate
        )
        if changes == self._changes:
            _bound(self._cached)
            seconds = min(self.settings.cache_seconds, found["seconds_left"] or math.inf)
            self._cached[key_hash] = asked_at + seconds, caller
        return caller

    def heard(self, key: Key | None) -> None:
        """Forget what is known of a tenant whose keys or limits have changed; of all where a change may be missed."""
        if key is None:
            self._changes += 1
            self._cached.clear()
            self._tenants.clear()
        elif key.kind == KIND:
            self._changes += 1
            self._tenants.pop(key.tenant_id, None)
            for key_hash in [found for found, (_, known) in self._cached.items() if known.tenant_id == key.tenant_id]:
                del self._cached[key_hash]

    async def record_use(self) -> int:
        """Write down when keys were last used, in one statement. Gives the number of keys."""
        used, self._used = self._used, {}
        if used:
            now = time.monotonic()
            try:
                await self.database.rows(
                    _USED,
                    tenants=[tenant for tenant, _ in used],
                    ids=[key_id for _, key_id in used],
                    used=[now - moment for moment in used.values()],
                )
            except BaseException:
                # Written down with what comes meanwhile, once that can be.
                self._used = used | self._used
                raise
        return len(used)


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="cairn"'}


def _closed() -> TenantClosed:
    return TenantClosed("The tenant is on its way out; nobody acts for it any more.")


def _bearer(authorization: str | None) -> str:
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Unauthenticated("Send the key as `Authorization: Bearer <key>`.", headers=_CHALLENGE)
    return key.strip()


def _rates(limits: bytes) -> tuple[Rate | None, Rate | None]:
    """The limits of a tenant's reads and writes: a class has its own, or shares that of all. A burst alone is none."""
    given = json.loads(limits)
    classes = given.get("classes") or {}
    shared = _rate("tenant", given)
    return _rate("read", classes.get("read")) or shared, _rate("write", classes.get("write")) or shared


def _rate(name: Literal["tenant", "read", "write"], given: dict[str, Any] | None) -> Rate | None:
    per_second = (given or {}).get("requests_per_second")
    return None if given is None or per_second is None else Rate(name, per_second, given.get("burst") or per_second)


def _bound(cached: dict[bytes, tuple[float, Caller]] | dict[str, float]) -> None:
    if len(cached) >= CACHED_MAX:
        cached.clear()
