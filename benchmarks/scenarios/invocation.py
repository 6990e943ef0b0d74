"""Start an invocation and end it: two requests, one after the other, from each client."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, VERSION, Ground
from benchmarks.request import Request
from benchmarks.rounds import Comparison

START = Request("POST", "/v1/invocations", f'{{"id":"@@","version_id":"{VERSION}","input":{PAYLOAD}}}')
END = Request(
    "POST", "/v1/invocations/@@/end", f'{{"status":"completed","output":{PAYLOAD},"usd_cost":0.0123,"accuracy":0.5}}'
)


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Without an Idempotency-Key, and with one on each request."""
    plain = [START, END]
    for subject, requests in (
        ("start and end an invocation", plain),
        ("start and end an invocation, Idempotency-Key", [START.with_key("start"), END.with_key("end")]),
    ):
        queries, body = ground.recorded(requests)
        driver = ground.driver([query for of_one in queries for query in of_one], len(requests))
        with ground.bare(requests, body) as bare:
            yield Comparison(
                subject,
                ground.service(requests),
                {"raw asyncpg": driver, "bare framework": bare},
                facts={"statements for each request": max(map(len, queries))},
            )
