"""The rules for Prometheus name metrics and labels that there are, and the page for operators tells of each rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase

from app.http.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((DOCS / "alarms.yaml").read_text())["groups"] for rule in group["rules"]
]
# What Prometheus itself adds to each series; it calls our own `job` so.
ADDED = {"instance", "exported_job"}


def measured() -> dict[str, set[str]]:
    """The labels of each series, by its name."""
    found: dict[str, set[str]] = {}
    metrics = Metrics()
    for family in (*vars(metrics).values(), metrics.absence_of("redis")):
        if isinstance(family, MetricWrapperBase):
            labels = set(family._labelnames)
            for described in family.describe():
                found |= dict.fromkeys((described.name, f"{described.name}_total"), labels)
                if isinstance(family, Histogram):
                    found |= {f"{described.name}_{end}": {*labels, "le"} for end in ("bucket", "sum", "count")}
    return found


def test_each_rule_is_whole_and_has_a_name_of_its_own() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
        for opening, closing in ("()", "{}", "[]"):
            assert rule["expr"].count(opening) == rule["expr"].count(closing)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_names_what_there_is(rule: dict[str, Any]) -> None:
    series = measured()
    names = re.findall(r"cairn_\w+", rule["expr"])
    assert names
    assert set(names) <= set(series)
    labels = set().union(*(series[name] for name in names)) | ADDED
    assert set(re.findall(r"(\w+)=~?\"", rule["expr"])) <= labels
    for listed in re.findall(r"by \(([^)]*)\)", rule["expr"]):
        assert {label.strip() for label in listed.split(",")} <= labels
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels


def test_the_page_for_operators_tells_of_every_rule_and_every_metric() -> None:
    page = (DOCS / "operations.md").read_text()
    for rule in RULES:
        assert f"| `{rule['alert']}` | `{' '.join(rule['expr'].split())}` |" in page
    # Behind the first of a family the others are written by their ends.
    named = set(re.findall(r"cairn_\w+", page)) | {f"cairn_stream{end}" for end in re.findall(r"`(_\w+)`", page)}
    told = {described.name for family in vars(Metrics()).values() if isinstance(family, MetricWrapperBase)
            for described in family.describe()}  # fmt: skip
    assert {name for name in told if not named & {name, f"{name}_total"}} == set()
    assert named <= set(measured()) | {"cairn_stream"}
