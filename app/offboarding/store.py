"""Offboardings in SQL: begun by a request, claimed by a process under a lease, advanced with what is removed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, instant_sql, plain
from app.db.sql import load
from app.errors import NotFound, changed
from app.offboarding.errors import OffboardingNotFound, OffboardingUnderWay
from app.offboarding.receipt import tenant_sha256

# The backup that is made first stands as its job does until its file is there.
_BACKUP = (
    "FROM backups AS b LEFT JOIN jobs AS j ON j.tenant_id = b.tenant_id AND j.id = b.job_id"
    " WHERE b.tenant_id = {t}.tenant_id AND b.id = {t}.backup_id"
)
_EXPORTED = (
    "CASE WHEN {t}.state <> 'exporting' THEN {t}.state ELSE COALESCE((SELECT CASE"
    " WHEN b.manifest IS NOT NULL THEN 'exported' WHEN j.state IN ('queued', 'running') THEN 'exporting' END"
    f" {_BACKUP}), 'failed') END"
)
_EXPORT = (
    "(SELECT json_build_object('backup_id', b.id, 'progress',"
    " json_build_object('done', COALESCE(j.progress_done, 0), 'total', j.progress_total),"
    f" 'size_bytes', b.size_bytes, 'digest', encode(b.digest, 'hex'), 'error', j.error) {_BACKUP})"
)
OFFBOARDING = Shape(
    "id",
    plain("tenant", "tenant_id"),
    computed("state", _EXPORTED),
    computed("export", _EXPORT),
    "counts",
    "error",
    instant("created_at"),
    instant("ended_at"),
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


async def begin(
    writer: Writer, tenant_id: str, pause_seconds: float, if_match: list[int] | None = None, *, export: bool = False
) -> Answer:
    """Close the tenant; its work begins after so long, or is confirmed once it is exported. Again is the same
    offboarding, whatever revision it names. Raises `NotFound`, `PreconditionFailed`.
    """

    async def why() -> None:
        stored = await writer.row(_SQL["is_there"], tenant_id=tenant_id)
        if stored is None:
            raise NotFound("There is no such tenant.")
        if stored["closed_at"] is None and if_match is not None and stored["revision"] not in if_match:
            raise changed("tenant", stored["revision"])

    state = "exporting" if export else "closed"
    return await decided(
        writer, _SQL["begin"], why, tenant_id=tenant_id, id=new_id("off"), seconds=pause_seconds, state=state,
        if_match=if_match,
    )  # fmt: skip


async def exports_to(writer: Reader, tenant_id: str, make: Callable[[], Awaitable[str]]) -> Answer:
    """The open offboarding of a tenant, with the backup that `make` asks for where it is to have one and has none."""
    if await writer.row(_SQL["lacks_export"], tenant_id=tenant_id) is not None:
        await writer.rows(_SQL["set_export"], tenant_id=tenant_id, backup_id=await make())
    row = await writer.row(_SQL["open"], tenant_id=tenant_id)
    assert row is not None
    return Answer(202, row["body"])


async def export_of(reader: Reader, offboarding_id: str) -> tuple[str, str]:
    """The tenant and the backup of an offboarding that exports first. Raises `OffboardingNotFound`."""
    row = await _found(reader, offboarding_id)
    if row["backup_id"] is None:
        raise OffboardingNotFound("This offboarding has no export.", id=offboarding_id)
    return row["tenant_id"], row["backup_id"]


async def confirm(writer: Writer, offboarding_id: str) -> Answer:
    """The export is in good hands: go on. Again is the same. Raises `OffboardingNotFound`, `OffboardingUnderWay`."""

    async def why() -> None:
        row = await _found(writer, offboarding_id)
        if row["state"] == "exporting":
            raise OffboardingUnderWay("There is no export to be confirmed yet.", state="exporting")

    return await decided(writer, _SQL["confirm"], why, id=offboarding_id)


async def cancel(writer: Writer, offboarding_id: str) -> Answer:
    """Open the tenant again, and forget the offboarding; `moved` names the tenant.

    Raises `OffboardingNotFound`, and `OffboardingUnderWay` once rows may be gone.
    """

    async def why() -> None:
        row = await _found(writer, offboarding_id)
        if row["state"] != "exporting":
            raise OffboardingUnderWay("Only one that exports first can be cancelled, until that is confirmed.",
                                      state=row["state"])  # fmt: skip

    return await decided(writer, _SQL["cancel"], why, id=offboarding_id)


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


async def oldest_seconds(reader: Reader) -> float:
    """How long ago the oldest offboarding was asked for that is being carried out; 0 where there is none."""
    row = await reader.row(_SQL["oldest"])
    return 0.0 if row is None or row["seconds"] is None else float(row["seconds"])


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
