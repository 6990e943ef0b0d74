"""One message in each request: the hottest write of the record, alone."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, Ground
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

LEAST = 0.35
MESSAGE = Request(
    "POST",
    "/v1/invocations/bench-~~/messages",
    f'{{"id":"@@","role":"delegation","from_node_id":"plan","to_node_id":"search","payload":{PAYLOAD}}}',
)


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Without an Idempotency-Key, and with one."""
    for subject, request in (("one message", MESSAGE), ("one message, Idempotency-Key", MESSAGE.with_key("one"))):
        queries, body = ground.recorded([request])
        with ground.bare([request], body) as bare:
            yield Comparison(
                subject,
                ground.service([request]),
                {"raw asyncpg": ground.driver(queries[0]), "bare framework": bare},
                (Bound("raw asyncpg", LEAST),),
                {"statements": len(queries[0])},
            )
