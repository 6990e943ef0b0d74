"""What a webhook can subscribe to is what the service writes: the list in `main.py`, held against the SQL."""

from __future__ import annotations

import re
from pathlib import Path

from app.main import SUBJECTS

APP = Path(__file__).resolve().parents[2] / "app"
KNOWN = {f"{subject.type}.{change}" for subject in SUBJECTS for change in subject.changes}
# Types of deliveries that tell of no event.
BESIDE = {"webhook.test"}
# The names of streams, of migrations and of other things look alike.
SUBJECT_TYPES = "|".join(sorted({subject.type for subject in SUBJECTS}, key=len, reverse=True))
WRITTEN = re.compile(rf"'((?:{SUBJECT_TYPES})\.[a-z_]+)'")


def test_every_type_that_is_written_can_be_subscribed_to_and_the_other_way_round() -> None:
    texts = [path.read_text() for kind in ("*.sql", "*.py") for path in APP.rglob(kind)]
    written = {name for text in texts for name in WRITTEN.findall(text)} - BESIDE
    assert written == KNOWN


def test_every_subject_that_an_event_names_is_known() -> None:
    named = {
        name
        for path in APP.rglob("*.sql")
        for name in re.findall(r"'[a-z_]+\.[a-z_]+'(?:\s*END)?, '([a-z_]+)'", path.read_text())
    }
    assert named <= {subject.type for subject in SUBJECTS}
