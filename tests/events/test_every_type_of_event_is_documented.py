"""The table of docs/events.md, and what webhooks can name, held against the SQL that writes events."""

from __future__ import annotations

import re
from pathlib import Path

from app.surface import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
# Types that the SQL puts together.
COMPOSED = {"'mcp_version.' || v.status": {"mcp_version.released", "mcp_version.yanked"}}
# Deliveries that tell of no change.
NO_EVENTS = {"webhook.test"}
TYPE = re.compile(r"'([a-z_]+\.[a-z_]+)'")


def written() -> set[str]:
    """Every type that a statement writes."""
    found: set[str] = set()
    for file in sorted((ROOT / "app").rglob("*")):
        text = file.read_text() if file.suffix in {".sql", ".py"} else ""
        if "INTO outbox" in text:
            found |= set(TYPE.findall(text)) - NO_EVENTS
            for expression in re.findall(r"'[a-z_]+\.' \|\| [a-z.]+", text):
                found |= COMPOSED[expression]
    return found


def documented() -> dict[str, str]:
    """The subject of each type, as the table says it."""
    table = (ROOT / "docs/events.md").read_text().partition("## Every type")[2]
    return dict(re.findall(r"^\| `([a-z_.]+)` \| `([a-z_]+)`", table, re.MULTILINE))


def test_the_table_has_every_type_once_with_its_subject() -> None:
    assert sorted(documented()) == sorted(written()), "say in docs/events.md what each type means"
    assert {type_: type_.partition(".")[0] for type_ in documented()} == documented()


def test_a_webhook_can_name_every_type() -> None:
    known = {name for subject in SUBJECTS for name in subject.event_types}
    assert sorted(known) == sorted(written())


def test_every_verbatim_field_that_an_event_can_show_is_named() -> None:
    text = (ROOT / "docs/events.md").read_text()
    for subject in SUBJECTS:
        if subject.fields:
            assert f"include={','.join(subject.fields)}" in text, subject.type
