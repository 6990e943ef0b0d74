"""Leases in SQL: PostgreSQL decides who holds one and gives the token; signs of life may lie elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, instant_sql
from app.db.sql import load
from app.leases.errors import LeaseHeld, LeaseLost, LeaseNotFound
from app.leases.liveness import LENGTHS, UNSEEN, Liveness, Sight, shown_until

# `expires_at` is the last member: a renewal writes it anew behind the others.
LEASE = Shape("name", "holder", "fencing_token", "lease_seconds", instant("acquired_at"), instant("expires_at"))
LEASES = Listing(
    "leases",
    "leases AS t",
    LEASE,
    sorts={"name": Sort("{t}.name", "text")},
    default=("name", "asc"),
    ids=("t.name",),
)
SQL = load(__file__, lease=LEASE.json("l"), expires_at=instant_sql("l.expires_at"))


async def acquire(
    writer: Writer, liveness: Liveness, tenant_id: str, name: str, holder: str, lease_seconds: int
) -> Answer:
    """Take the lease, if it is free or has lapsed, under the next token; who holds it already keeps its token.

    Raises `LeaseHeld`.
    """
    (sight,) = await liveness.look(tenant_id, [name])

    async def why() -> None:
        found = await _found(writer, tenant_id, name, sight)
        if found is None or found["holder"] in (None, holder) or found["lapsed"]:
            return
        raise LeaseHeld(
            f"The lease is held by {found['holder']!r} until {found['expires_at']}, unless it is renewed.",
            name=name, holder=found["holder"], fencing_token=found["fencing_token"], expires_at=found["expires_at"],
        )  # fmt: skip

    answer = await decided(
        writer, SQL["acquire"], why, tenant_id=tenant_id, name=name, holder=holder, lease_seconds=lease_seconds,
        seen=sight.seen, live_token=sight.token,
    )  # fmt: skip
    if sight.token is not None:
        # What lies there is of a token that is over, or of another length: the next renewal is PostgreSQL's.
        await liveness.drop(tenant_id, name, sight.token)
    return answer


async def renew(
    writer: Writer, liveness: Liveness, tenant_id: str, name: str, holder: str, fencing_token: int, *, apart: bool
) -> Answer:
    """Hold the lease for its length from now on. Raises `LeaseLost`, `LeaseNotFound`.

    A renewal that stands `apart` goes to where the signs of life are kept, as long as PostgreSQL knows that it may be
    there; one that belongs to a transaction, for a key or a fence, is PostgreSQL's.
    """
    asked_at = None
    if apart:
        renewal = await liveness.renew(tenant_id, name, holder, fencing_token)
        if renewal.lease is not None:
            return Answer(200, renewal.lease)
        asked_at = renewal.asked_at
    given = {"tenant_id": tenant_id, "name": name, "holder": holder, "fencing_token": fencing_token}
    answer = await writer.answer(SQL["renew"], lengths=0 if asked_at is None else LENGTHS, **given)
    if answer is None or answer.body is None:
        raise await _lost(writer, tenant_id, name)
    if asked_at is not None:
        await liveness.carry(tenant_id, name, answer.body, asked_at)
    return answer


async def release(
    writer: Writer, liveness: Liveness, tenant_id: str, name: str, holder: str, fencing_token: int
) -> Answer:
    """Give the lease up, if it is held under this token. Raises `LeaseLost`, `LeaseNotFound`."""
    given = {"tenant_id": tenant_id, "name": name, "holder": holder, "fencing_token": fencing_token}
    answer = await writer.answer(SQL["release"], **given)
    if answer is None:
        raise await _lost(writer, tenant_id, name)
    await liveness.drop(tenant_id, name, fencing_token)
    return answer


async def get(reader: Reader, liveness: Liveness, tenant_id: str, name: str) -> Answer:
    """A lease. Raises `LeaseNotFound`."""
    (sight,) = await liveness.look(tenant_id, [name])
    found = await _found(reader, tenant_id, name, sight)
    if found is None:
        raise LeaseNotFound("Nobody ever acquired this lease.", name=name)
    return Answer(200, found["body"])


class _Page(msgspec.Struct, omit_defaults=True):
    items: list[msgspec.Raw]
    next_cursor: str | None
    total: int | msgspec.UnsetType = msgspec.UNSET


class _Named(msgspec.Struct):
    name: str


async def with_renewals(liveness: Liveness, tenant_id: str, page: bytes) -> bytes:
    """A page of leases with the ends of renewals that PostgreSQL has not seen."""
    read = msgspec.json.decode(page, type=_Page)
    names = [msgspec.json.decode(item, type=_Named).name for item in read.items]
    sights = await liveness.look(tenant_id, names)
    if all(sight.until is None for sight in sights):
        return page
    read.items = [msgspec.Raw(shown_until(bytes(item), sight)) for item, sight in zip(read.items, sights, strict=True)]
    return msgspec.json.encode(read)


async def _found(reader: Reader, tenant_id: str, name: str, sight: Sight) -> Any:
    return await reader.row(
        SQL["get"], tenant_id=tenant_id, name=name, seen=sight.seen, live_token=sight.token, live_until=sight.until
    )


async def _lost(reader: Reader, tenant_id: str, name: str) -> LeaseLost | LeaseNotFound:
    found = await _found(reader, tenant_id, name, UNSEEN)
    if found is None:
        return LeaseNotFound("Nobody ever acquired this lease.", name=name)
    return LeaseLost(
        "This holder and token do not hold the lease.",
        name=name, current_token=found["fencing_token"], holder=found["holder"], expires_at=found["expires_at"],
    )  # fmt: skip
