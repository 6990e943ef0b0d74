"""Signs of life of leases: kept where they cost PostgreSQL nothing, and believed only where they can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.cache.cache import Cache, Key, Script, Word
from app.errors import Unavailable

# How many lengths of a lease Redis carries it before a renewal goes to PostgreSQL again; nine of ten do not, where
# the holder renews three times in a length. Who cannot see Redis waits so long before taking a lease from it.
LENGTHS = 4
_LAST = b'"expires_at":'


@dataclass(frozen=True)
class Sight:
    """What is seen of a lease: whether anything can be seen, and the token and the end of a renewal that lies there."""

    seen: bool
    token: int | None = None
    until: datetime | None = None


UNSEEN = Sight(seen=False)


@dataclass(frozen=True)
class Renewal:
    """What a renewal came to: the lease as JSON, if it was renewed; else PostgreSQL decides.

    `asked_at` is when it was asked, in milliseconds by the clock that expires what is kept; None where nothing is.
    """

    lease: bytes | None = None
    asked_at: int | None = None


_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
# What is carried has no sign of life without an end: key and end are set in one step, by the server's clock.
_RENEW = Script(
    "lease renew",
    f"""{_NOW}
local kept = redis.call('HMGET', KEYS[1], 'token', 'holder', 'milliseconds', 'until', 'lease')
if kept[1] ~= ARGV[1] or kept[2] ~= ARGV[2] then return {{now}} end
local expires = now + tonumber(kept[3])
if expires > tonumber(kept[4]) then return {{now}} end
redis.call('PEXPIREAT', KEYS[1], expires)
return {{now, expires, kept[5]}}
""",
)
# Its end was fixed before PostgreSQL was asked, so a command that comes late carries nothing that has lapsed since.
_CARRY = Script(
    "lease carry",
    f"""{_NOW}
local kept = redis.call('HMGET', KEYS[1], 'token', 'holder')
local expires = tonumber(ARGV[4]) + tonumber(ARGV[3])
if expires <= now then return 0 end
if kept[1] and tonumber(kept[1]) > tonumber(ARGV[1]) then return 0 end
if kept[1] == ARGV[1] and not kept[2] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'holder', ARGV[2], 'milliseconds', ARGV[3],
  'until', tonumber(ARGV[4]) + tonumber(ARGV[3]) * tonumber(ARGV[5]), 'lease', ARGV[6])
redis.call('PEXPIREAT', KEYS[1], expires)
return 1
""",
)
_LOOK = Script(
    "lease look",
    """
local seen = {}
for place, key in ipairs(KEYS) do
  seen[place] = {redis.call('HGET', key, 'token'), redis.call('PEXPIRETIME', key)}
end
return seen
""",
)
# What is left of a token that is over has no holder, and stays for as long as a renewal from before may come late.
_END = Script(
    "lease end",
    f"""{_NOW}
local token = redis.call('HGET', KEYS[1], 'token')
if token and tonumber(token) > tonumber(ARGV[1]) then return 0 end
redis.call('HDEL', KEYS[1], 'holder')
redis.call('HSET', KEYS[1], 'token', ARGV[1])
redis.call('PEXPIREAT', KEYS[1], now + tonumber(ARGV[2]))
return 1
""",
)
_BEGIN = Script(
    "lease begin",
    """
local kept = redis.call('HMGET', KEYS[1], 'token', 'milliseconds')
if not kept[1] then return 0 end
if tonumber(kept[1]) < tonumber(ARGV[1]) then return redis.call('HDEL', KEYS[1], 'holder') end
if kept[1] == ARGV[1] and kept[2] ~= ARGV[2] then return redis.call('DEL', KEYS[1]) end
return 0
""",
)


class _Lease(msgspec.Struct):
    holder: str | None
    fencing_token: int
    lease_seconds: int


class Liveness:
    """Renewals in Redis, by its clock. Where there is none, or it is away, nothing is seen and PostgreSQL renews."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def renew(self, tenant_id: str, name: str, holder: str, fencing_token: int) -> Renewal:
        """Renew a lease that is carried here under this token, for its length, in one atomic step."""
        told = await self._run(_RENEW, [_key(tenant_id, name)], [fencing_token, holder])
        if told is None:
            return Renewal()
        if len(told) == 1:
            return Renewal(asked_at=told[0])
        return Renewal(told[2] + _LAST + _written(_instant(told[1])), told[0])

    async def carry(self, tenant_id: str, name: str, lease: bytes, asked_at: int) -> None:
        """Carry from now on what PostgreSQL has just renewed; `asked_at` is that of the renewal before."""
        read = msgspec.json.decode(lease, type=_Lease)
        token, holder, milliseconds = read.fencing_token, read.holder or "", read.lease_seconds * 1000
        without_end = lease.rpartition(_LAST)[0]
        await self._run(_CARRY, [_key(tenant_id, name)], [token, holder, milliseconds, asked_at, LENGTHS, without_end])

    async def look(self, tenant_id: str, names: Sequence[str]) -> list[Sight]:
        """What is seen of each of these leases, in one step."""
        told = await self._run(_LOOK, [_key(tenant_id, name) for name in names], []) if names else []
        if told is None:
            return [UNSEEN] * len(names)
        return [Sight(True, int(token), _instant(end)) if token else Sight(True) for token, end in told]

    async def begin(self, tenant_id: str, name: str, lease: bytes) -> None:
        """Carry nothing of an earlier token, nor of another length: the next renewal is PostgreSQL's.

        Only once the acquisition is committed: until then what is carried holds.
        """
        read = msgspec.json.decode(lease, type=_Lease)
        await self._run(_BEGIN, [_key(tenant_id, name)], [read.fencing_token, read.lease_seconds * 1000])

    async def end(self, tenant_id: str, name: str, lease: bytes) -> None:
        """Carry a lease no more under the token with which it was released, whatever renewal comes late.

        Only once the release is committed: until then what is carried holds.
        """
        read = msgspec.json.decode(lease, type=_Lease)
        await self._run(_END, [_key(tenant_id, name)], [read.fencing_token, read.lease_seconds * 1000])

    async def _run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Word]) -> Any:
        """What the script gives; None where there is no Redis, or it does not answer, of which its door tells."""
        try:
            return await self._cache.run(script, keys, arguments)
        except Unavailable:
            return None


def shown_until(lease: bytes, sight: Sight) -> bytes:
    """A lease as JSON, with the end of its last renewal where only that is seen."""
    read = msgspec.json.decode(lease, type=_Lease)
    if sight.until is None or read.holder is None or read.fencing_token != sight.token:
        return lease
    head, _, end = lease.rpartition(_LAST)
    return head + _LAST + max(end, _written(sight.until))


def _key(tenant_id: str, name: str) -> Key:
    return Key("lease", tenant_id, name)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _written(instant: datetime) -> bytes:
    """The end of a lease's JSON: the last member's value, and the brace."""
    return instant.strftime('"%Y-%m-%dT%H:%M:%S.%fZ"}').encode()
