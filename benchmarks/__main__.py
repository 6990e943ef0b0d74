"""`python -m benchmarks`: measure, print the ratios, and write the report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.generator import LoadError, require_wrk
from benchmarks.ground import standing
from benchmarks.rounds import Pace, Ratio, compare
from benchmarks.scenarios import ONLY_WHEN_NAMED, SCENARIOS

QUICK = Pace(clients=(8,), rounds=1, seconds=1)
QUICK_ROWS = 20_000


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="only this one; may repeat")
    parser.add_argument("--seconds", type=int, default=2, help="of one load (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="each measures subject and limits once (default 5)")
    parser.add_argument("--clients", type=int, action="append", help="may repeat (default 1, 8 and 32)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the long list (default a million)")
    parser.add_argument("--quick", action="store_true", help="one short round at 8 clients: does it all still run?")
    parser.add_argument("--report", type=Path, help="folder for report.md, report.json and report.svg")
    parser.add_argument("--keep", action="store_true", help="keep what the report has of scenarios not measured now")
    return parser.parse_args()


def main() -> int:
    """Run what was asked for. 1 when a bound was missed, 2 when nothing could be measured."""
    options = _options()
    pace = Pace(tuple(options.clients or (1, 8, 32)), options.rounds, options.seconds)
    rows = options.rows
    if options.quick:
        pace, rows = QUICK, QUICK_ROWS
    chosen = options.scenario or [name for name in SCENARIOS if name not in ONLY_WHEN_NAMED]
    try:
        require_wrk()
        ratios, facts = _measure(chosen, pace, rows)
    except LoadError as error:
        print(error, file=sys.stderr)
        return 2
    if options.report:
        run = report.Run(sys.argv[1:], pace, rows, ratios, facts)
        report.write(options.report, run, list(SCENARIOS), keep=options.keep)
    missed = [ratio for ratio in ratios if not ratio.holds]
    for ratio in missed:
        print(f"Missed: {ratio.subject} at {ratio.clients} clients, {ratio.median:.2f} of {ratio.limit}.")
    return 1 if missed and not options.quick else 0


def _measure(chosen: list[str], pace: Pace, rows: int) -> tuple[list[Ratio], dict[str, dict[str, int]]]:
    ratios: list[Ratio] = []
    facts: dict[str, dict[str, int]] = {}
    with standing(rows=rows) as ground:
        for name in chosen:
            for comparison in SCENARIOS[name](ground):
                ground.sql("CHECKPOINT")
                found = compare(name, comparison, pace)
                ratios += found
                facts[comparison.subject] = dict(comparison.facts)
                for ratio in found:
                    print(report.line(ratio), flush=True)
    return ratios, facts


if __name__ == "__main__":
    sys.exit(main())
