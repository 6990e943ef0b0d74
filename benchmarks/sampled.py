"""`cairn serve` under a sampling profiler: every few milliseconds of its CPU time, where it is.

`python -m benchmarks.sampled FILE serve …` writes the samples as JSON when it is told to stop: for each stack its
count, innermost frame first. A signal that comes while C code runs is handled when that code returns, so what it
took counts for the Python frame that called it.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY_SECONDS = 0.002
DEPTH = 12
_samples: Counter[tuple[str, ...]] = Counter()


def _note(_signal: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None and len(stack) < DEPTH:
        code = frame.f_code
        stack.append(f"{code.co_filename}:{code.co_name}")
        frame = frame.f_back
    _samples[tuple(stack)] += 1


def main(file: str, *arguments: str) -> None:
    """Run the command line with these arguments, and write the samples in the end."""
    signal.signal(signal.SIGPROF, _note)
    signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)
    from app.cli import main as cairn  # noqa: PLC0415 - sampled from its import on

    sys.argv = ["cairn", *arguments]
    try:
        cairn()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = [[count, list(stack)] for stack, count in _samples.most_common()]
        Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
