"""Leases in SQL: PostgreSQL decides who holds one and gives the token; signs of life may lie elsewhere."""

from __future__ import annotations

import msgspec

from app.db.database import Answer, Reader, Writer
from app.db.integrity import IN_THE_WAY
from app.db.page import Listing, Sort
from app.db.race import TRIES
from app.db.shape import Shape, instant, instant_sql
from app.db.sql import load
from app.errors import Unavailable
from app.leases.errors import LeaseHeld, LeaseLost, LeaseNotFound
from app.leases.liveness import LENGTHS, Liveness, shown_until

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

    Raises `LeaseHeld`. Once this is committed, `liveness.begin` is to be told.
    """
    over_at = None
    for _ in range(TRIES):
        answer = await writer.answer(
            SQL["acquire"], tenant_id=tenant_id, name=name, holder=holder, lease_seconds=lease_seconds, over_at=over_at
        )
        if answer is not None:
            return answer
        found = await writer.row(SQL["get"], tenant_id=tenant_id, name=name)
        if found is None or found["holder"] in (None, holder) or found["lapsed"]:
            continue
        # In this order: where the end had passed before Redis is looked at, no renewal comes there that is not seen.
        (sight,) = await liveness.look(tenant_id, [name])
        if not (found["over"] and sight.seen and sight.token != found["fencing_token"]):
            raise _held(shown_until(found["body"], sight))
        over_at = found["expires_at"]
    raise Unavailable(IN_THE_WAY)


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


async def release(writer: Writer, tenant_id: str, name: str, holder: str, fencing_token: int) -> Answer:
    """Give the lease up, if it is held under this token. Raises `LeaseLost`, `LeaseNotFound`.

    Once this is committed, `liveness.end` is to be told.
    """
    given = {"tenant_id": tenant_id, "name": name, "holder": holder, "fencing_token": fencing_token}
    answer = await writer.answer(SQL["release"], **given)
    if answer is None:
        raise await _lost(writer, tenant_id, name)
    return answer


async def get(reader: Reader, liveness: Liveness, tenant_id: str, name: str) -> Answer:
    """A lease. Raises `LeaseNotFound`."""
    (sight,) = await liveness.look(tenant_id, [name])
    found = await reader.row(SQL["get"], tenant_id=tenant_id, name=name)
    if found is None:
        raise LeaseNotFound("Nobody ever acquired this lease.", name=name)
    return Answer(200, shown_until(found["body"], sight))


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


class _Held(msgspec.Struct):
    name: str
    holder: str
    fencing_token: int
    expires_at: str


def _held(lease: bytes) -> LeaseHeld:
    read = msgspec.json.decode(lease, type=_Held)
    return LeaseHeld(
        f"The lease is held by {read.holder!r} until {read.expires_at}, unless it is renewed.",
        **msgspec.structs.asdict(read),
    )


async def _lost(reader: Reader, tenant_id: str, name: str) -> LeaseLost | LeaseNotFound:
    found = await reader.row(SQL["get"], tenant_id=tenant_id, name=name)
    if found is None:
        return LeaseNotFound("Nobody ever acquired this lease.", name=name)
    return LeaseLost(
        "This holder and token do not hold the lease.",
        name=name, current_token=found["fencing_token"], holder=found["holder"], expires_at=found["shown_expires_at"],
    )  # fmt: skip
