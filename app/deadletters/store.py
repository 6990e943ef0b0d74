"""Dead letters in SQL. Whoever gives work up writes its letter, in the same transaction."""

from __future__ import annotations

from app.db.database import Answer, Reader
from app.db.page import Listing, Sort
from app.db.shape import Shape, instant
from app.db.sql import Statement
from app.deadletters.errors import DeadLetterNotFound

DEAD_LETTER = Shape("id", "source", "subject", "reason", "attempts", "last_error", instant("created_at"))
DEAD_LETTERS = Listing(
    "dead letters",
    "dead_letters AS t",
    DEAD_LETTER,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "source": "t.source = :source",
        "subject": "t.subject = :subject",
        "reason": "t.reason = :reason",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
)
_GET = Statement(
    f"SELECT {DEAD_LETTER.json('d')} AS body FROM dead_letters AS d WHERE d.tenant_id = :tenant_id AND d.id = :id"
)


async def get(reader: Reader, tenant_id: str, letter_id: str) -> Answer:
    """A dead letter. Raises `DeadLetterNotFound`."""
    row = await reader.row(_GET, tenant_id=tenant_id, id=letter_id)
    if row is None:
        raise DeadLetterNotFound("There is no such dead letter.", id=letter_id)
    return Answer(200, row["body"])
