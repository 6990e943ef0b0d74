"""Dead letters in SQL. Whoever gives work up writes its letter, in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Page, Sort
from app.db.shape import Shape, instant
from app.db.sql import Statement, load
from app.deadletters.errors import DeadLetterNotFound
from app.errors import AppError

Replayer = Callable[[Writer, str, Sequence[str]], Awaitable[Mapping[str, AppError | tuple[str, Sequence[Key]]]]]
"""Tries subjects of a tenant again, whose letters are held: what each is tried as and who waits for it, or why not."""

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
        "webhook_id": "t.source = 'webhook' AND EXISTS (SELECT FROM webhook_deliveries AS d"
        " WHERE d.tenant_id = t.tenant_id AND d.id = t.subject AND d.webhook_id = :webhook_id)",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
)
_SQL = load(__file__, letter=DEAD_LETTER.json("t"))


class _Letter(msgspec.Struct):
    id: str


@dataclass
class Outcome:
    """What replaying letters came to: the letters with what each is tried as, those refused with why, who is told."""

    replayed: list[dict[str, str]] = field(default_factory=list)
    refused: list[tuple[dict[str, str], AppError]] = field(default_factory=list)
    moved: list[Key] = field(default_factory=list)


async def get(reader: Reader, tenant_id: str, letter_id: str) -> Answer:
    """A dead letter. Raises `DeadLetterNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=letter_id)
    if row is None:
        raise DeadLetterNotFound("There is no such dead letter.", id=letter_id)
    return Answer(200, row["body"])


async def delete(writer: Writer, tenant_id: str, letter_id: str) -> Answer:
    """Remove a letter; what it told of stays as it is. Raises `DeadLetterNotFound`."""
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=letter_id)
    if answer is None:
        raise DeadLetterNotFound("There is no such dead letter.", id=letter_id)
    return answer


async def purge(writer: Writer, tenant_id: str, filters: Mapping[str, Any], limit: int) -> Answer:
    """Remove the oldest letters that match, at most so many; says how many, and whether there are more."""
    answer = await writer.answer(_purge(frozenset(filters)), tenant_id=tenant_id, limit=limit, **filters)
    assert answer is not None
    return answer


def _purge(given: frozenset[str]) -> Statement:
    # One more than is removed is looked at: it says that there are more.
    return Statement(
        "WITH found AS MATERIALIZED (\n"
        f"  SELECT t.id, row_number() OVER (ORDER BY t.created_at, t.id) AS place FROM ("
        f"SELECT * FROM dead_letters AS t WHERE {DEAD_LETTERS.where(given)}"
        " ORDER BY t.created_at, t.id LIMIT CAST(:limit AS bigint) + 1 FOR UPDATE) AS t\n"
        "), deleted AS (\n"
        "  DELETE FROM dead_letters AS l USING found AS f\n"
        "  WHERE l.tenant_id = :tenant_id AND l.id = f.id AND f.place <= CAST(:limit AS bigint) RETURNING l.id\n"
        "), answer AS (\n"
        "  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, json_build_object(\n"
        "    'deleted', (SELECT count(*) FROM deleted),"
        " 'more', (SELECT count(*) > CAST(:limit AS bigint) FROM found)) AS body\n"
        ")",
        "purge",
    )


async def replay(
    writer: Writer, tenant_id: str, letter_id: str, replayers: Mapping[str, Replayer]
) -> tuple[Answer, Sequence[Key]]:
    """Try again what a letter tells of; the letter goes. In a transaction.

    Raises `DeadLetterNotFound`, and what the source raises.
    """
    outcome = await _replayed(writer, tenant_id, [letter_id], replayers)
    if outcome.refused:
        raise outcome.refused[0][1]
    if not outcome.replayed:
        raise DeadLetterNotFound("There is no such dead letter.", id=letter_id)
    return Answer(200, json.dumps(outcome.replayed[0]).encode()), outcome.moved


async def replay_page(
    writer: Writer,
    tenant_id: str,
    filters: Mapping[str, Any],
    limit: int,
    cursor: str | None,
    replayers: Mapping[str, Replayer],
) -> tuple[Answer, Sequence[Key]]:
    """Try again what the next letters that match tell of, the oldest first, at most so many. In a transaction.

    Raises `BadCursor`. A letter whose source refuses stays, and the cursor leads past it.
    """
    found = await DEAD_LETTERS.page(writer, tenant_id, Page(limit, cursor, "created_at", "asc"), filters)
    ids = [msgspec.json.decode(item, type=_Letter).id for item in found.items]
    outcome = await _replayed(writer, tenant_id, ids, replayers)
    body = {
        "replayed": len(outcome.replayed),
        "refused": len(outcome.refused),
        "items": outcome.replayed,
        "refusals": [{**letter, "code": why.code, "detail": why.detail} for letter, why in outcome.refused],
        "next_cursor": found.next_cursor,
    }
    return Answer(200, json.dumps(body).encode()), outcome.moved


async def _replayed(
    writer: Writer, tenant_id: str, letter_ids: Sequence[str], replayers: Mapping[str, Replayer]
) -> Outcome:
    """Replay letters that are still there, each once whoever else does the same."""
    held = await writer.rows(_SQL["hold"], tenant_id=tenant_id, ids=list(letter_ids))
    outcome, gone = Outcome(), []
    for source in sorted({row["source"] for row in held}):
        letters = [row for row in held if row["source"] == source]
        results = await replayers[source](writer, tenant_id, [row["subject"] for row in letters])
        for row in letters:
            letter, result = dict(row), results[row["subject"]]
            if isinstance(result, AppError):
                outcome.refused.append((letter, result))
            else:
                outcome.replayed.append({**letter, "replayed_as": result[0]})
                outcome.moved += result[1]
                gone.append(row["id"])
    await writer.rows(_SQL["remove"], tenant_id=tenant_id, ids=gone)
    return outcome
