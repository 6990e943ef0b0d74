"""A hundred messages in each request, against the same statement and against a raw multi-row INSERT.

The INSERT writes the same rows, every value that may differ from row to row bound, in two ways: a list of VALUES, and
arrays that are unnested.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, TENANT, Ground
from benchmarks.limit import Query
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

COUNT = 100
LEAST = 0.5
COLUMNS = "tenant_id, invocation_id, seq, id, from_node_id, to_node_id, role, payload, digest"
KINDS = ("text", "text", "text", "text", "json", "bytea")
ITEM = '{"id":"@@-%02d","role":"delegation","from_node_id":"plan","to_node_id":"search","payload":%s}'
MESSAGES = Request(
    "POST",
    "/v1/invocations/bench-~~/messages",
    '{"items":[' + ",".join(ITEM % (place, PAYLOAD) for place in range(COUNT)) + "]}",
)
ROWS = [(f"@@-{place:02d}", "plan", "search", "delegation", PAYLOAD.encode(), bytes(32)) for place in range(COUNT)]


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Without an Idempotency-Key, and with one."""
    for subject, request in (
        ("100 messages", MESSAGES),
        ("100 messages, Idempotency-Key", MESSAGES.with_key("hundred")),
    ):
        queries, body = ground.recorded([request])
        with ground.bare([request], body) as bare:
            yield Comparison(
                subject,
                ground.service([request]),
                {
                    "raw asyncpg": ground.driver(queries[0]),
                    "raw INSERT of 100 VALUES": ground.driver([values()]),
                    "raw INSERT of 100 unnested": ground.driver([unnested()]),
                    "bare framework": bare,
                },
                (Bound("raw INSERT of 100 VALUES", LEAST), Bound("raw INSERT of 100 unnested", LEAST)),
                {"statements": len(queries[0])},
            )


def values() -> Query:
    """The INSERT as people write it: one list of values for each row."""
    width = len(KINDS)
    rows = ", ".join(
        f"($1, 'bench-' || $2, nextval('message_seq'), {', '.join(f'${3 + place * width + n}' for n in range(width))})"
        for place in range(COUNT)
    )
    return Query(
        f"INSERT INTO messages ({COLUMNS}) VALUES {rows}", (TENANT, "~~", *(value for row in ROWS for value in row))
    )


def unnested() -> Query:
    """The INSERT with one array for each column."""
    arrays = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(KINDS, 3))
    return Query(
        f"INSERT INTO messages ({COLUMNS}) SELECT $1, 'bench-' || $2, nextval('message_seq'), g.*"
        f" FROM unnest({arrays}) AS g",
        (TENANT, "~~", *(list(column) for column in zip(*ROWS, strict=True))),
    )
