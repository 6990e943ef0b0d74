"""Offboardings in SQL: begun by a request, claimed by a process under a lease, advanced with what is removed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, instant_sql, plain
from app.db.sql import load
from app.errors import NotFound
from app.offboarding.errors import OffboardingNotFound, OffboardingUnderWay
from app.offboarding.receipt import tenant_sha256

OFFBOARDING = Shape(
    "id", plain("tenant", "tenant_id"), "state", "counts", "error", instant("created_at"), instant("ended_at")
)
OFFBOARDINGS = Listing(
    "offboardings",
    "offboardings AS t",
    OFFBOARDING,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    of_all=True,
)
_SQL = load(
    __file__,
    offboarding=OFFBOARDING.json("o"),
    created_at=instant_sql("o.created_at"),
    ended_at=instant_sql("o.at"),
)


class OffboardingLost(Exception):
    """Another process goes on with it; what this one did since its last count is rolled back."""


@dataclass(frozen=True)
class Held:
    """An offboarding that a process goes on with; `attempt_count` counts from its last progress."""

    tenant_id: str
    id: str
    state: str
    runner_id: str
    attempt_count: int


async def begin(writer: Writer, tenant_id: str, pause_seconds: float) -> Answer:
    """Close the tenant; its work begins after so long. Again is the same offboarding. Raises `NotFound`."""

    async def why() -> None:
        if await writer.row(_SQL["is_there"], tenant_id=tenant_id) is None:
            raise NotFound("There is no such tenant.")

    return await decided(writer, _SQL["begin"], why, tenant_id=tenant_id, id=new_id("off"), seconds=pause_seconds)


async def get(reader: Reader, offboarding_id: str) -> Answer:
    """The offboarding. Raises `OffboardingNotFound`."""
    return Answer(200, (await _found(reader, offboarding_id))["body"])


async def receipt(reader: Reader, offboarding_id: str) -> Answer:
    """The receipt, byte for byte as it was signed. Raises `OffboardingNotFound`, `OffboardingUnderWay`."""
    row = await _found(reader, offboarding_id)
    if row["receipt"] is None:
        raise OffboardingUnderWay("There is no receipt before the offboarding is completed.", state=row["state"])
    return Answer(200, row["receipt"])


async def _found(reader: Reader, offboarding_id: str) -> Any:
    row = await reader.row(_SQL["get"], id=offboarding_id)
    if row is None:
        raise OffboardingNotFound("There is no such offboarding.", id=offboarding_id)
    return row


async def claim(writer: Reader, runner_id: str, lease_seconds: float) -> Held | None:
    """The offboarding that waits longest, held for so long from now; None where nothing waits."""
    row = await writer.row(_SQL["claim"], runner_id=runner_id, lease_seconds=float(lease_seconds))
    return None if row is None else Held(row["tenant_id"], row["id"], row["state"], runner_id, row["attempt_count"])


async def advance(writer: Reader, held: Held, counts: dict[str, int], lease_seconds: float) -> None:
    """Count what is gone, in the transaction in which it goes, and hold it on. Raises `OffboardingLost`."""
    _held(
        await writer.row(
            _SQL["advance"], **_key(held), counts=json.dumps(counts).encode(), lease_seconds=float(lease_seconds)
        )
    )


async def wait(
    writer: Reader, held: Held, seconds: float, state: str | None = None, error: dict[str, Any] | None = None
) -> None:
    """Let go of it for so long, in another state where one is given. Raises `OffboardingLost`."""
    told = None if error is None else json.dumps(error, default=str).encode()
    _held(await writer.row(_SQL["wait"], **_key(held), seconds=float(seconds), state=state, error=told))


async def release_all(writer: Reader, runner_id: str) -> None:
    """Let go of whatever a process holds that ends in order."""
    await writer.rows(_SQL["release_all"], runner_id=runner_id)


async def told(reader: Reader, held: Held) -> tuple[dict[str, int], str, str]:
    """What is counted, and when it began and ends, if it ends now: instants as they are written."""
    row = await reader.row(_SQL["now"], tenant_id=held.tenant_id, id=held.id)
    if row is None:
        raise OffboardingLost
    return json.loads(row["counts"]), row["started_at"], row["ended_at"]


async def complete(writer: Reader, held: Held, receipt: bytes, ended_at: str) -> None:
    """End it: from now on the tenant is named nowhere. Raises `OffboardingLost`."""
    digest = tenant_sha256(held.tenant_id)
    _held(await writer.row(_SQL["complete"], **_key(held), tenant_sha256=digest, receipt=receipt, ended_at=ended_at))


def _key(held: Held) -> dict[str, str]:
    return {"tenant_id": held.tenant_id, "id": held.id, "runner_id": held.runner_id}


def _held(row: Any) -> None:
    if row is None:
        raise OffboardingLost
