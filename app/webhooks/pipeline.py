"""The statements that carry an event to its endpoints."""

from __future__ import annotations

from app.db.shape import Shape, instant, instant_sql
from app.db.sql import load
from app.deadletters.store import DEAD_LETTER

WEBHOOK = Shape("id", "url", "event_types", "enabled", instant("disabled_at"), "disabled_reason")
SQL = load(
    __file__,
    "pipeline_queries.sql",
    occurred_at=instant_sql("e.occurred_at"),
    letter=DEAD_LETTER.json("l"),
    webhook=WEBHOOK.json("t"),
)
