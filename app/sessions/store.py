"""Sessions in SQL."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.errors import changed
from app.sessions.errors import SessionConflict, SessionEnded, SessionNotFound

FIELDS = ("owner_id", "status", "metadata", "expires_at")
# Nobody writes when a session expires: whoever reads it from then on sees that it has.
STANDING = (
    "CASE WHEN {t}.status IN ('active', 'suspended') AND {t}.expires_at <= clock_timestamp() THEN 'expired'"
    " ELSE {t}.status END"
)

SESSION = Shape(
    "id",
    "owner_id",
    computed("status", STANDING),
    "metadata",
    instant("expires_at"),
    instant("created_at"),
    instant("updated_at"),
)

SESSIONS = Listing(
    "sessions",
    "sessions AS t",
    SESSION,
    sorts={
        "created_at": Sort("{t}.created_at", "timestamptz"),
        "expires_at": Sort("{t}.expires_at", "timestamptz", nullable=True),
    },
    default=("created_at", "desc"),
    filters={
        "owner_id": "t.owner_id = :owner_id",
        "status": f"{STANDING.replace('{t}', 't')} = ANY (CAST(:status AS text[]))",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
        "expires_after": "t.expires_at >= :expires_after",
        "expires_before": "t.expires_at < :expires_before",
    },
)

_SQL = load(__file__, session=SESSION.json("s"), standing=STANDING.replace("{t}", "s"))


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Create a session: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `SessionConflict` where the id belongs to a session created with other fields.
    """
    session_id = given.get("id") or new_id("ses")
    digest = digest_of({**given, "id": session_id})

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=session_id)
        if stored is not None and stored["digest"] != digest:
            raise SessionConflict("A session with this id was created with other fields.", id=session_id)

    fields = {name: given.get(name) for name in FIELDS} | {"status": given.get("status", "active")}
    return await decided(writer, _SQL["create"], why, tenant_id=tenant_id, id=session_id, digest=digest, **fields)


async def patch(
    writer: Writer, tenant_id: str, session_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `SessionNotFound`, `PreconditionFailed`, `SessionEnded`."""

    async def why() -> None:
        stored = await _standing(writer, tenant_id, session_id)
        if if_match is not None and stored["revision"] not in if_match:
            raise changed("session", stored["revision"])
        if stored["status"] not in ("active", "suspended"):
            raise SessionEnded(f"The session is {stored['status']}.", current_status=stored["status"])

    fields = {name: given.get(name) for name in FIELDS}
    named = {f"set_{name}": name in given for name in FIELDS}
    return await decided(
        writer, _SQL["patch"], why, tenant_id=tenant_id, id=session_id, if_match=if_match, **fields, **named
    )


async def delete(writer: Writer, tenant_id: str, session_id: str, if_match: list[int] | None) -> Answer:
    """Delete a session; what names it stays. Raises `SessionNotFound`, `PreconditionFailed`."""

    async def why() -> None:
        stored = await _standing(writer, tenant_id, session_id)
        if if_match is not None and stored["revision"] not in if_match:
            raise changed("session", stored["revision"])

    return await decided(writer, _SQL["delete"], why, tenant_id=tenant_id, id=session_id, if_match=if_match)


async def get(reader: Reader, tenant_id: str, session_id: str) -> Answer:
    """The session. Raises `SessionNotFound`."""
    row = await _standing(reader, tenant_id, session_id)
    return Answer(200, row["body"], row["revision"])


async def _standing(reader: Reader, tenant_id: str, session_id: str) -> Any:
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=session_id)
    if row is None:
        raise SessionNotFound("There is no such session.", id=session_id)
    return row
