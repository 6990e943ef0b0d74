"""Holds what the endpoints were sent against what PostgreSQL knows was written: nothing may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import asyncpg

UNFINISHED = """
SELECT (SELECT count(*) FROM outbox) AS outbox,
       (SELECT COALESCE(sum(e.position - h.position), 0)
        FROM webhook_heads AS h JOIN event_heads AS e USING (tenant_id)) AS events,
       (SELECT count(*) FROM webhook_deliveries WHERE status IN ('pending', 'queued', 'sending')) AS deliveries,
       (SELECT count(*) FROM webhook_deliveries WHERE status IN ('delivered', 'dead')) AS ended
"""
POSITIONS = """
SELECT tenant_id, count(*) AS events, count(DISTINCT position) AS positions, max(position) AS head,
       count(DISTINCT subject_id) FILTER (WHERE type = 'workflow.created') AS created
FROM events GROUP BY tenant_id
"""
DEAD = """
SELECT e.subject_id AS subject, l.id IS NOT NULL AS listed FROM webhook_deliveries AS d
JOIN events AS e ON e.tenant_id = d.tenant_id AND e.position = d.event_position
LEFT JOIN dead_letters AS l ON l.tenant_id = d.tenant_id AND l.subject = d.id AND l.source = 'webhook'
WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.status = 'dead'
"""
UNLISTED = """
SELECT count(*) FROM webhook_deliveries AS d WHERE d.status = 'dead'
  AND NOT EXISTS (SELECT FROM dead_letters AS l WHERE l.tenant_id = d.tenant_id AND l.subject = d.id)
"""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of the run: whose it is, and how it behaves."""

    tenant_id: str
    webhook_id: str
    port: int
    kind: str


@dataclass
class Verdict:
    """What was found. `wrong` says in words what must not be."""

    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, name: str, number: int) -> None:
        """Add to a count."""
        self.counts[name] = self.counts.get(name, 0) + number

    def must(self, true: bool, words: str) -> None:
        """Something that has to hold."""
        if not true:
            self.wrong.append(words)


async def judge(
    connection: asyncpg.Connection,
    endpoints: list[Endpoint],
    seen: Mapping[int, Mapping[str, list[str]]],
    written: Mapping[str, list[str]],
) -> Verdict:
    """The verdict. `seen` is what each port was sent: ids of deliveries by the workflow told of."""
    verdict = Verdict()
    for row in await connection.fetch(POSITIONS):
        tenant_id = row["tenant_id"]
        if tenant_id in written:
            verdict.count("events", row["events"])
            dense = row["events"] == row["positions"] == row["head"]
            verdict.must(dense, f"The positions of {tenant_id} have gaps or come twice.")
            verdict.must(row["created"] == len(written[tenant_id]), f"Not every workflow of {tenant_id} has its event.")
    for endpoint in endpoints:
        sent = seen[endpoint.port]
        deliveries = sum(len(ids) for ids in sent.values())
        verdict.count(f"requests to {endpoint.kind} endpoints", deliveries)
        if endpoint.kind == "healthy":
            await _judge_healthy(connection, verdict, endpoint, sent, written[endpoint.tenant_id])
    unfinished = await connection.fetchrow(UNFINISHED)
    for name in ("outbox", "events", "deliveries"):
        verdict.must(unfinished[name] == 0, f"{unfinished[name]} of the {name} were not done with in time.")
    unlisted = await connection.fetchval(UNLISTED)
    verdict.must(unlisted == 0, f"{unlisted} dead deliveries are not listed as dead letters.")
    verdict.count("dead letters", await connection.fetchval("SELECT count(*) FROM dead_letters"))
    return verdict


async def _judge_healthy(
    connection: asyncpg.Connection,
    verdict: Verdict,
    endpoint: Endpoint,
    sent: Mapping[str, list[str]],
    written: list[str],
) -> None:
    dead = {row["subject"] for row in await connection.fetch(DEAD, endpoint.tenant_id, endpoint.webhook_id)}
    missing = [name for name in written if name not in sent and name not in dead]
    verdict.must(not missing, f"{endpoint.webhook_id} never got {len(missing)} events, such as {missing[:3]}.")
    strangers = set(sent) - set(written)
    verdict.must(not strangers, f"{endpoint.webhook_id} got {len(strangers)} events of others.")
    changing = [name for name, ids in sent.items() if len(set(ids)) > 1]
    verdict.must(not changing, f"{endpoint.webhook_id} got {len(changing)} events under more than one id.")
    verdict.count("events that healthy endpoints must get", len(written))
    verdict.count("sent to them again, under the same id", sum(len(ids) - 1 for ids in sent.values()))
    given_up = len([name for name in written if name not in sent])
    verdict.count("of these listed as dead letters instead", given_up)
    # Nothing but what is broken here keeps a healthy endpoint from its events, and each of these is back in seconds.
    verdict.must(given_up * 100 <= len(written), f"{given_up} events for {endpoint.webhook_id} were given up.")
