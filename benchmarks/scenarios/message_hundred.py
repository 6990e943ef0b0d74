"""A hundred messages in each request, against the same statement and against a raw multi-row INSERT.

The limit is the faster of two ways to write the INSERT: a list of VALUES, and arrays that are unnested.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, TENANT, Ground
from benchmarks.limit import Query
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

COUNT = 100
LEAST = 0.5
COLUMNS = "tenant_id, invocation_id, id, seq, from_node_id, to_node_id, role, payload, digest"
ITEM = '{"id":"@@-%02d","role":"delegation","from_node_id":"plan","to_node_id":"search","payload":%s}'
MESSAGES = Request(
    "POST",
    "/v1/invocations/bench-~~/messages",
    '{"items":[' + ",".join(ITEM % (place, PAYLOAD) for place in range(COUNT)) + "]}",
)
IDS = [f"@@-{place:02d}" for place in range(COUNT)]
DIGEST = bytes(32)


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
    row = "($1, 'bench-' || $2, ${}, nextval('message_seq'), 'plan', 'search', 'delegation', ${}, $3)"
    rows = ", ".join(row.format(4 + 2 * place, 5 + 2 * place) for place in range(COUNT))
    payload = PAYLOAD.encode()
    arguments = [value for name in IDS for value in (name, payload)]
    return Query(f"INSERT INTO messages ({COLUMNS}) VALUES {rows}", (TENANT, "~~", DIGEST, *arguments))


def unnested() -> Query:
    """The INSERT with one array for each column that differs."""
    return Query(
        f"INSERT INTO messages ({COLUMNS})"
        " SELECT $1, 'bench-' || $2, g.id, nextval('message_seq'), 'plan', 'search', 'delegation', g.payload, $3"
        " FROM unnest($4::text[], $5::json[]) AS g (id, payload)",
        (TENANT, "~~", DIGEST, IDS, [PAYLOAD.encode()] * COUNT),
    )
