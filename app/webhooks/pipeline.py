"""The statements that carry an event to its endpoints."""

from __future__ import annotations

from app.db.shape import stored_bytes
from app.db.sql import load
from app.deadletters.store import DEAD_LETTER
from app.webhooks.delivery_store import BODY, EVENT_BODY
from app.webhooks.store import WEBHOOK

# How many a statement takes at once. They stand in its text: a limit that is a parameter locks, or reads, more.
LANES_MAX, LANES_HELD_MAX = 1000, 100
GIVEN_UP_MAX, LAPSED_MAX, LOST_MAX, LETTERS_MAX = 200, 1000, 200, 50

SQL = load(
    __file__,
    "pipeline_queries.sql",
    body=EVENT_BODY,
    kept_body=BODY.format(t="d"),
    body_bytes=stored_bytes("d.body"),
    data_bytes=stored_bytes("e.data"),
    letter=DEAD_LETTER.json("l"),
    webhook=WEBHOOK.json("t"),
    lanes_max=str(LANES_MAX),
    lanes_held_max=str(LANES_HELD_MAX),
    given_up_max=str(GIVEN_UP_MAX),
    lapsed_max=str(LAPSED_MAX),
    lost_max=str(LOST_MAX),
    letters_max=str(LETTERS_MAX),
)
