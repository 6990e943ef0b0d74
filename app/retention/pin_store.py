"""Pins in SQL."""

from __future__ import annotations

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import Statement, load
from app.errors import invalid
from app.retention.errors import NothingToPin, PinNotFound

PIN = Shape("kind", "id", instant("created_at"))
PINS = Listing(
    "pins",
    "pins AS t",
    PIN,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={"kind": "t.kind = :kind"},
    ids=("t.kind", "t.id"),
)
# FOR KEY SHARE: what is about to leave is waited for, and then it is gone; what is pinned first stays.
TARGETS = {
    **{
        kind: f"SELECT r.id FROM {table} AS r WHERE r.tenant_id = :tenant_id AND r.id = :id FOR KEY SHARE"
        for kind, table in (
            ("invocation", "invocations"),
            ("version", "versions"),
            ("evolution_run", "evolution_runs"),
            ("submission", "submissions"),
            ("session", "sessions"),
            ("backup", "backups"),
        )
    },
    "conversation": (
        "SELECT p.path FROM stream_paths AS p JOIN conversation_streams AS s ON s.tenant_id = p.tenant_id"
        " AND s.number = p.number WHERE p.tenant_id = :tenant_id AND p.path = :id FOR KEY SHARE OF s"
    ),
}
_SQL = load(__file__, "pin_queries.sql", pin=PIN.json("p"))
_PUT = {
    kind: Statement(_SQL["put"].source.replace("SELECT 1 AS target", target), f"pin_{kind}")
    for kind, target in TARGETS.items()
}
_TARGET = {kind: Statement(target, f"{kind}_to_pin") for kind, target in TARGETS.items()}


async def put(writer: Writer, tenant_id: str, kind: str, pinned: str) -> Answer:
    """Pin something: 201, or 200 where it is pinned. Raises `InvalidInput`, `NothingToPin`."""
    key = {"tenant_id": tenant_id, "kind": _known(kind), "id": pinned}

    async def why() -> None:
        if await writer.row(_TARGET[kind], tenant_id=tenant_id, id=pinned) is None:
            raise NothingToPin("What would be pinned is not there.", kind=kind, id=pinned)

    return await decided(writer, _PUT[kind], why, **key)


async def get(reader: Reader, tenant_id: str, kind: str, pinned: str) -> Answer:
    """A pin. Raises `InvalidInput`, `PinNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, kind=_known(kind), id=pinned)
    if row is None:
        raise _absent(kind, pinned)
    return Answer(200, row["body"])


async def delete(writer: Writer, tenant_id: str, kind: str, pinned: str) -> Answer:
    """Take a pin away. Raises `InvalidInput`, `PinNotFound`."""
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, kind=_known(kind), id=pinned)
    if answer is None:
        raise _absent(kind, pinned)
    return answer


def _known(kind: str) -> str:
    if kind not in TARGETS:
        raise invalid("kind", f"must be one of {', '.join(TARGETS)}")
    return kind


def _absent(kind: str, pinned: str) -> PinNotFound:
    return PinNotFound("Nothing is pinned under this kind and id.", kind=kind, id=pinned)
