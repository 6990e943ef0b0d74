"""Append one batch of two kilobytes to a conversation under a submission's attempt, a conversation for each client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.ground import CLIENTS_MAX, PAYLOAD, TENANT, Ground
from benchmarks.limit import Query
from benchmarks.request import CLIENT, ROUND, ROUND_FIRST, Request
from benchmarks.rounds import Bound, Comparison, Load

LEAST = 0.5
# The number that the recorded append has, of which the arguments are known again.
RECORDED = 7_000_000
RECORD = f'{{"v":1,"id":"record","type":"signal","submissionId":"{{sub}}","attemptId":"att","content":{PAYLOAD}}}'
STREAMS = f"""
WITH clients AS (
  SELECT CAST($2 AS text) || '-' || lpad(CAST(client AS text), 2, '0') AS name
  FROM generate_series(0, {CLIENTS_MAX}) AS client
  UNION ALL SELECT $2 || '-~~'
), paths AS (
  INSERT INTO stream_paths (tenant_id, path) SELECT $1, name FROM clients RETURNING number, path
), streams AS (
  INSERT INTO conversation_streams
    (tenant_id, number, agent_name, instance_id, incarnation, producer_id, producer_epoch, next_producer_sequence)
  SELECT $1, number, 'bench', path, 'made', 'bench', 1, CAST($3 AS bigint) FROM paths
), sessions AS (
  INSERT INTO submission_sessions (tenant_id, session_key, open_count) SELECT $1, name, 1 FROM clients
  RETURNING number, session_key
)
INSERT INTO submissions
  (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head, canonical_ready_at, status,
   attempt_id, started_at, on_lapse)
SELECT $1, session_key, number, 'direct', 'bench', session_key, '{{}}', sha256('x'), true, clock_timestamp(), 'running',
  'att', clock_timestamp(), 'hold'
FROM sessions
"""
_runs = itertools.count()


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Without an Idempotency-Key, and with one. Each load has conversations of its own."""
    for subject, key in (("append a batch", ""), ("append a batch, Idempotency-Key", "append")):
        run = _opened(ground, RECORDED)
        first = _append(run, str(RECORDED), key and f"first-{key}")
        queries = _recorded(ground, first, _append(run, str(RECORDED + 1), key))
        yield Comparison(
            subject,
            _fresh_service(ground, key),
            {"raw asyncpg": _fresh_driver(ground, queries, run)},
            (Bound("raw asyncpg", LEAST),),
            {"statements for each request": len(queries)},
        )


def _append(run: str, number: str, key: str) -> Request:
    name = f"{run}-{CLIENT}"
    head = {
        "path": name, "producer_id": "bench", "producer_epoch": 1, "incarnation": "made",
        "submission": {"submission_id": name, "attempt_id": "att"},
    }  # fmt: skip
    rest = f',"producer_sequence":{number},"records":[{RECORD.replace("{sub}", name)}]}}'
    body = json.dumps(head, separators=(",", ":")).removesuffix("}") + rest
    request = Request("POST", "/v1/conversations/append", body)
    return request.with_key(key) if key else request


def _opened(ground: Ground, number: int = ROUND_FIRST) -> str:
    run = f"run{next(_runs):04d}"
    ground.sql(STREAMS, TENANT, run, number)
    # What autovacuum would do after a while, so that no side is measured before it and another after.
    ground.sql("VACUUM ANALYZE submissions, submission_sessions, stream_paths, conversation_streams")
    return run


def _recorded(ground: Ground, *requests: Request) -> list[Query]:
    """What the second of two appends sends, its number replaced by that of the round."""
    queries = ground.recorded(requests)[0][-1]
    return [
        replace(query, arguments=tuple(ROUND if of == RECORDED + 1 else of for of in query.arguments))
        for query in queries
    ]


def fresh(ground: Ground, key: str = "") -> list[Request]:
    """The append of a load, for conversations that are made for it."""
    return [_append(_opened(ground), ROUND, key)]


def _fresh_service(ground: Ground, key: str) -> Load:
    def load(clients: int, seconds: int) -> float:
        return ground.service(fresh(ground, key))(clients, seconds)

    return load


def _fresh_driver(ground: Ground, queries: list[Query], recorded: str) -> Load:
    def load(clients: int, seconds: int) -> float:
        run = _opened(ground)
        moved = [replace(query, arguments=_renamed(query.arguments, recorded, run)) for query in queries]
        return ground.driver(moved)(clients, seconds)

    return load


def _renamed(arguments: tuple[object, ...], recorded: str, run: str) -> tuple[object, ...]:
    def renamed(value: object) -> object:
        if isinstance(value, str):
            return value.replace(recorded, run)
        if isinstance(value, bytes):
            return value.replace(recorded.encode(), run.encode())
        return value

    return tuple(renamed(value) for value in arguments)
