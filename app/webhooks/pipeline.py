"""The statements that carry an event to its endpoints."""

from __future__ import annotations

from app.db.shape import instant_sql
from app.db.sql import load
from app.deadletters.store import DEAD_LETTER
from app.webhooks.store import WEBHOOK

SQL = load(
    __file__,
    "pipeline_queries.sql",
    occurred_at=instant_sql("e.occurred_at"),
    letter=DEAD_LETTER.json("l"),
    webhook=WEBHOOK.json("t"),
)
