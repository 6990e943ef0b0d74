"""The scenarios, one in each file: what is asked of the service, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.ground import Ground
from benchmarks.rounds import Comparison
from benchmarks.scenarios import (
    ancestors,
    append,
    ceiling,
    invocation,
    list_pages,
    message_hundred,
    message_one,
    overview,
    partitioning,
    queue,
    trace,
)

Scenario = Callable[[Ground], Iterator[Comparison]]

SCENARIOS: dict[str, Scenario] = {
    "ceiling": ceiling.comparisons,
    "invocation": invocation.comparisons,
    "message-one": message_one.comparisons,
    "message-hundred": message_hundred.comparisons,
    "trace": trace.comparisons,
    "list-pages": list_pages.comparisons,
    "ancestors": ancestors.comparisons,
    "overview": overview.comparisons,
    "queue": queue.comparisons,
    "append": append.comparisons,
    "partitioning": partitioning.comparisons,
}
# It prepared a decision; what it measures is not the service.
ONLY_WHEN_NAMED = frozenset({"partitioning"})
