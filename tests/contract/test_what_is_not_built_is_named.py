"""The contract's line on what is not built yet, held against the document of what is served."""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONTRACT = (DOCS / "api-contract.md").read_text()
PATH = re.compile(r"/v1/[A-Za-z0-9{}_/-]+")
# How section 9's examples name what stands in braces elsewhere.
EXAMPLE = re.compile(r"/(inv_7|n1|sub_9)(?=/|$)")


def segments(path: str) -> tuple[str, ...]:
    return tuple(re.sub(r"\{[^}]*\}", "{}", EXAMPLE.sub("/{}", path)).strip("/").split("/"))


SERVED = [segments(path) for path in json.loads((DOCS / "openapi.json").read_text())["paths"]]
NAMED = next((line for line in CONTRACT.splitlines() if line.startswith("**Not built yet:**")), "")
MISSING = [segments(path) for path in PATH.findall(NAMED)]


def test_nothing_that_is_named_as_missing_is_served() -> None:
    assert SERVED
    stale = [missing for missing in MISSING if any(path[: len(missing)] == missing for path in SERVED)]
    assert stale == [], "these are served now: take them out of the line at the top of docs/api-contract.md"


def test_whatever_the_contract_promises_is_served_or_named_as_missing() -> None:
    promised = {segments(path) for path in PATH.findall(CONTRACT.split("## 1. Conventions")[1])}
    unsaid = [
        path
        for path in promised
        if not any(served[: len(path)] == path for served in SERVED)
        and not any(path[: len(missing)] == missing for missing in MISSING)
    ]
    assert sorted(unsaid) == []
