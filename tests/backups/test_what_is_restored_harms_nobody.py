"""A file that its tenant forged, with right digests and a right seal, stops no work that is done for all tenants."""

from __future__ import annotations

from typing import Any

import pytest

from app.http.service import Service
from tests.backups.test_a_hostile_file_is_refused import Change, changed, refused, row

Rows = dict[str, list[dict[str, Any]]]
FORGED: dict[str, Change] = {
    "an instant that no driver reads": row("invocations", heartbeat_at="infinity"),
    "an instant after the year 9999": row("invocations", heartbeat_at="19999-01-01T00:00:00+00:00"),
    "an instant before the first year": row("invocations", heartbeat_at="0044-03-15T00:00:00+00:00 BC"),
    "an instant in another zone": row("invocations", heartbeat_at="9999-12-31T23:00:00-15:00"),
    "the first instant of all": row("document_collections", created_at="0001-01-01T00:00:00+00:00"),
    "the last instant of all": row("document_collections", created_at="9999-12-31T23:59:59.999999+00:00"),
    "a last revision": lambda rows: [one.update(revision=2**63 - 1) for one in rows["submissions"]],
    "a last position": row("event_heads", position=2**63 - 1),
    "a last token": row("leases", fencing_token=2**63 - 1),
    "a last number": row("conversation_streams", next_seq=2**63 - 1),
    "a last sequence number": row("messages", seq=-(2**63)),
    "an id of 10 KB": row("workflows", id="x" * 10_000),
    "a list for metadata": row("workflows", metadata=[1]),
    "no metadata": row("invocations", metadata=None),
    "a type of events that is null": row("webhooks", event_types=[None]),
    "what no type of events is": row("webhooks", event_types=["\r\nX: y"]),
    "a member to include that is none": row("webhooks", include=["a b"]),
    "a URL that is too long": row("webhooks", url="http://x/" + "y" * 5000),
    "no threshold": row("cleanup_schedules", thresholds={}),
    "thresholds of its own": row("cleanup_schedules", thresholds={"x": 1}),
    "a pause of no time": row("cleanup_schedules", every_seconds=1),
    "a secret path that leads nowhere": row("document_collections", secret_paths=["/~7"]),
    "no space that is active": lambda rows: [one.update(active=False) for one in rows["memory_spaces"]],
    "a language of no server": row("memory_spaces", language="klingon"),
    "a number that a batch has": lambda rows: [one.update(next_seq=1) for one in rows["conversation_streams"]],
    "a number of its producer's": lambda rows: [
        one.update(next_producer_sequence=1) for one in rows["conversation_streams"]
    ],
    "a batch before the first": row("conversation_batches", seq=-1),
    "an outcome to come that is none": lambda rows: [
        one.update(settlement_outcome="won") for one in rows["submissions"] if one["settlement_outcome"]
    ],
    "a last attempt": lambda rows: [one.update(attempt_count=2**31 - 1) for one in rows["submissions"]],
}


@pytest.mark.parametrize("what", FORGED)
async def test_what_the_api_never_lets_through_is_refused(file: bytes, service: Service, what: str) -> None:
    job, count = await refused(service, changed(file, FORGED[what]))

    assert (job["state"], job["error"]["code"], count) == ("failed", "backup_refused", 0), job


async def test_no_more_spaces_of_memory_are_restored_than_a_tenant_may_have(file: bytes, service: Service) -> None:
    def more(rows: Rows) -> None:
        first = rows["memory_spaces"][0]
        rows["memory_spaces"] += [{**first, "name": f"more {number}", "active": False} for number in range(99)]

    job, count = await refused(service, changed(file, more))
    assert (job["state"], job["error"]["code"], count) == ("failed", "memory_spaces_full", 0), job
