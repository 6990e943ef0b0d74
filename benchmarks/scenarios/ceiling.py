"""The load generator's own ceiling: an empty server, which does not even parse, against the bare framework."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, Ground, standing_in
from benchmarks.request import Request
from benchmarks.rounds import Comparison


def comparisons(_ground: Ground) -> Iterator[Comparison]:
    """The generator drives an empty server so many times faster than the bare framework: the load is no limit."""
    request = Request("POST", "/", f'{{"id":"@@","payload":{PAYLOAD}}}')
    body = b"{}"
    with (
        standing_in("nothing", [request], body) as nothing,
        standing_in("framework", [request], body) as framework,
    ):
        yield Comparison("load generator on an empty server", nothing, {"bare framework": framework})
