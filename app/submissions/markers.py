"""Attempt markers: that an attempt was begun, kept apart from its submission."""

from __future__ import annotations

from app.db.database import Answer, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load

MARKER = Shape("submission_id", "attempt_id", instant("created_at"))
SQL = load(__file__, "marker_queries.sql", marker=MARKER.json("m"))
MARKERS = Listing(
    "attempt_markers",
    "attempt_markers AS t",
    MARKER,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "asc"),
    filters={"submission_id": "t.submission_id = :submission_id", "attempt_id": "t.attempt_id = :attempt_id"},
    ids=("t.submission_id", "t.attempt_id"),
)


async def put(writer: Writer, tenant_id: str, submission_id: str, attempt_id: str) -> Answer:
    """Mark an attempt: 201, or 200 with the marker that is there."""

    async def why() -> None:
        """It was removed while this looked for it; nothing stands in the way."""

    return await decided(
        writer, SQL["mark"], why, tenant_id=tenant_id, submission_id=submission_id, attempt_id=attempt_id
    )


async def delete(writer: Writer, tenant_id: str, submission_id: str, attempt_id: str) -> Answer:
    """Remove the marker of an attempt, if there is one."""
    answer = await writer.answer(SQL["unmark"], tenant_id=tenant_id, submission_id=submission_id, attempt_id=attempt_id)
    assert answer is not None
    return answer
