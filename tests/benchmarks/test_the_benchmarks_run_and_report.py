"""The benchmark ground: one command that runs, compares in alternating rounds, and reports ratios."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.db.ids import new_id
from benchmarks import report
from benchmarks.limit import Query, captured_from
from benchmarks.request import ROUND_FIRST, Request
from benchmarks.rounds import Bound, Comparison, Load, Pace, Ratio, compare

ROOT = Path(__file__).parents[2]


def steady(rate: float, calls: list[float]) -> Load:
    def load(_clients: int, _seconds: int) -> float:
        calls.append(rate)
        return rate

    return load


def test_sides_alternate_and_ratios_are_medians_of_rounds() -> None:
    calls: list[float] = []
    comparison = Comparison("s", steady(10, calls), {"limit": steady(20, calls)}, (Bound("limit", 0.4),))
    (ratio,) = compare("scenario", comparison, Pace(clients=(32,), rounds=2, seconds=1))
    assert calls == [10, 20, 20, 10]
    assert (ratio.median, ratio.low, ratio.high, ratio.least, ratio.holds) == (0.5, 0.5, 0.5, 0.4, True)


def test_a_request_states_the_length_that_it_has_once_its_marks_are_replaced() -> None:
    wire = Request("POST", "/@@", '{"id":"@@","of":"~~"}').with_key("a").wire("h", "k")
    sent = wire.replace("@@", "x" * 14).replace("~~", "07")
    head, _, body = sent.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    assert "Idempotency-Key: a-xxxxxxxxxxxxxx" in head


def test_a_request_has_room_for_its_round_and_for_what_an_answer_names() -> None:
    wire = Request("POST", "/<<id>>", '{"attempt_id":"<<attempt_id>>","sequence":##}').wire("h", "k")
    sent = wire.replace("<<attempt_id>>", new_id("att")).replace("##", str(ROUND_FIRST))
    head, _, body = sent.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head


def test_what_an_answer_names_is_captured_and_an_empty_one_is_said() -> None:
    assert captured_from(b'{"items":[{"id":"a","attempt_id":"b"},{"id":"c"}]}') == {
        "<<id>>": "a",
        "<<attempt_id>>": "b",
    }
    with pytest.raises(LookupError):
        captured_from(b'{"items":[]}')


def test_the_work_of_the_driver_survives_its_way_to_another_process() -> None:
    query = Query("SELECT $1", ("@@", ["~~"], b"bytes"))
    assert pickle.loads(pickle.dumps(query)) == query


@pytest.mark.skipif(shutil.which("wrk") is None, reason="the load generator wrk is not installed")
@pytest.mark.timeout(300)
def test_a_quick_run_writes_a_report_of_ratios(tmp_path: Path) -> None:
    chosen = [word for name in ("invocation", "queue", "append") for word in ("--scenario", name)]
    command = [sys.executable, "-m", "benchmarks", "--quick", *chosen, "--report", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    (found,) = json.loads((tmp_path / "report.json").read_text())
    assert {ratio["limit"] for ratio in found["ratios"]} == {"raw asyncpg", "bare framework"}
    assert all(ratio["median"] > 0 for ratio in found["ratios"])
    assert {fact["statements for each request"] for fact in found["facts"].values()} == {1}
    assert {ratio["scenario"] for ratio in found["ratios"]} == {"invocation", "queue", "append"}
    assert (tmp_path / "report.svg").read_text().startswith("<svg")
    assert "start and end an invocation" in (tmp_path / "report.md").read_text()


def test_a_report_keeps_the_scenarios_that_a_later_run_did_not_measure(tmp_path: Path) -> None:
    def run(median: float, *scenarios: str) -> report.Run:
        ratios = [Ratio(name, f"{name} subject", "limit", 32, median, 0.1, 0.9) for name in scenarios]
        return report.Run(
            ["--rounds", "1"], Pace(), 1000, ratios, {ratio.subject: {"statements": 1} for ratio in ratios}
        )

    report.write(tmp_path, run(0.25, "one", "two"), ["one", "two"], keep=True)
    report.write(tmp_path, run(0.75, "one"), ["one", "two"], keep=True)
    page = (tmp_path / "report.md").read_text()
    assert [row.split(" | ")[3] for row in page.splitlines() if " subject | " in row] == ["0.75", "0.25"]
    assert [line for line in page.splitlines() if line.startswith("Made with")] == [
        "Made with, for two:",
        "Made with, for one:",
    ]
    assert page.count("subject: statements 1") == 2
    report.write(tmp_path, run(0.5, "two"), ["one", "two"])
    assert "one subject" not in (tmp_path / "report.md").read_text()
