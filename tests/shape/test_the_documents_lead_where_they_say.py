"""Links of the documents lead to files and headings that there are, and each decision has its line and its check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("adapters/*/*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


def anchors(page: Path) -> set[str]:
    """What a `#` of a link to the page can name, as GitHub makes it of a heading."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_something(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if "://" not in target and (not file.exists() or (anchor and anchor not in anchors(file))):
            lost.append(target)
    assert lost == []


def test_every_decision_is_numbered_listed_and_enforced() -> None:
    listed = re.findall(r"^- \[(\d{4})\]\((\d{4}-[\w-]+\.md)\)", (DECISIONS[0].parent / "README.md").read_text(), re.M)
    assert listed == [(decision.name[:4], decision.name) for decision in DECISIONS]
    assert [int(number) for number, _ in listed] == list(range(1, len(DECISIONS) + 1))
    for decision in DECISIONS:
        text = decision.read_text(encoding="utf-8")
        assert text.startswith(f"# {decision.name[:4]} "), decision.name
        assert "**Enforced by**" in text, decision.name
