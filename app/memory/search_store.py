"""Searching memory: what is asked becomes one statement."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.db.database import Answer, Reader
from app.errors import PersistenceError
from app.memory.partitions import names_a_dropped_one
from app.memory.search_schemas import MemorySearch, Mode
from app.memory.search_sql import FUSED_MIN, NARROWING, Form, statement
from app.memory.space_store import Space
from app.settings import MemorySettings

# hnsw.ef_search has this bound.
BREADTH_MAX = 1000
# A line of dashes excludes nothing, and PostgreSQL has no room for so many exclusions of exclusions.
_without_lines = re.compile(r"-(?:[\s!&|()]*-){15,}").sub


@dataclass(frozen=True)
class Question:
    """What is asked, and by which space and mode; `vector` is the embedding as it is stored, where one is needed."""

    space: Space
    mode: Mode
    vector: bytes | None
    asked: MemorySearch


async def search(reader: Reader, tenant_id: str, question: Question, settings: MemorySettings) -> Answer | None:
    """What is nearest, the best first; None where the space is no longer what was asked for: removed, not active."""
    asked, space = question.asked, question.space
    narrowing = {name: getattr(asked, name) for name in NARROWING}
    by_vector, by_words = question.mode != "text", question.mode != "vector"
    wanted = max(asked.top_k, FUSED_MIN) if by_vector and by_words else asked.top_k
    most = 1 << (wanted - 1).bit_length()
    form = Form(
        number=space.number,
        dimensions=space.dimensions,
        metric=space.metric,
        by_vector=by_vector,
        by_words=by_words,
        most=most,
        breadth=settings.search_breadth,
        exact_rows=settings.exact_rows_max,
        text_rows=settings.text_rows_max,
        narrowed=frozenset(name for name, value in narrowing.items() if value is not None),
        explain=asked.explain,
    )
    arguments = narrowing | {
        "tenant_id": tenant_id,
        "embedding": question.vector,
        "query": None if asked.query is None else _without_lines(" ", asked.query),
        "language": space.language,
        "space": space.name,
        "named": asked.space is not None,
        "mode": question.mode,
        "wanted": wanted,
        "top_k": asked.top_k,
        "breadth": str(min(BREADTH_MAX, max(settings.search_breadth, 2 * most))),
        "scan_rows": str(settings.scan_rows_max),
    }
    try:
        row = await reader.row(statement(form), **arguments)
    except PersistenceError as error:
        if names_a_dropped_one(error):
            return None
        raise
    assert row is not None  # it selects from nothing
    return None if row["body"] is None else Answer(200, row["body"])
