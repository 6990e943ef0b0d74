"""Maintenance in SQL: one statement finds, ends, announces and answers."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Writer
from app.db.sql import load
from app.evolution.store import RUN
from app.invocations.store import INVOCATION
from app.maintenance.schemas import Thresholds
from app.nodes.store import NODE

LIMIT = 1000
_SILENT = """'{"message": "There was no sign of life for too long.", "category": "stale"}'::jsonb"""
_SQL = load(__file__, invocation=INVOCATION.json("i"), node=NODE.json("n"), run=RUN.json("r"), silent=_SILENT)


async def clean_up(writer: Writer, tenant_id: str, *, dry_run: bool, thresholds: dict[str, Any]) -> Answer:
    """End what has run without a sign of life for longer than the thresholds, at most 1,000 of a kind."""
    seconds = {**Thresholds().model_dump(), **thresholds}
    answer = await writer.answer(_SQL["clean_up"], tenant_id=tenant_id, dry_run=dry_run, limit=LIMIT, **seconds)
    assert answer is not None  # it always counts
    return answer
