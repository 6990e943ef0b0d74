"""The story that the examples of answers tell, where no request tells it.

A workflow has versions, an invocation of one runs for 72 seconds on the morning of 5 January 2026 and ends well; a
backup, a job and a webhook follow. `None` stands where null is what is mostly seen, `LEFT_OUT` where nothing is.
"""

from __future__ import annotations

from typing import Any, Final

LEFT_OUT: Final = ...


class Changed(dict[str, Any]):
    """Members that are others in what would stand there by itself, or in each item of it."""


def at(clock: str) -> str:
    """An instant of that morning."""
    return f"2026-01-05T{clock}Z"


MADE, BEGUN, BEAT, ENDED, NEXT = (
    at(clock)
    for clock in ("10:00:00.104512", "10:00:00.212804", "10:01:10.008216", "10:01:12.640318", "10:10:00.104512")
)
TOMORROW = "2026-01-06T10:00:00.104512Z"
SECONDS = 72.427514
TOLD = at("10:01:12.690004")
NODE_BEGUN, NODE_ENDED, NODE_SECONDS = at("10:00:01.020417"), at("10:00:41.311902"), 40.291485
HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
CONTENT = "e80f60a1a7ae2f9a1b1d8f3ef6f3b5e0a9c2bb0b41b0cbd1b5a3f7f55a3a1c27"
SEAL = "7d1a54127b222502f5b79b5fb0803061152a44f92b37e23c6527baf665d4da9a"
PUBLIC_KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
SIGNATURE = "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw=="
JOB = "job_019b8d9969687ad5ad1cdf4cb47b1324"
BACKUP = "bak_019b8d99696871b0be90a44851b9d6f4"
DELIVERY = "dlv_019b8d9a858c7a4eb62bcdb823879691"
EVENT = "evt_019b8d9a84907965bd86e30e5c77d19a"
LETTER = "dl_019b8d9a85ff72a0a30ecb358cb6a903"
FAULT = {"message": "The tool timed out.", "category": "timeout", "severity": "error", "retryable": True}
PART = {"status": "up", "mode": "connected"}
PARTS = {
    "postgres": PART | {"version": "18.0"},
    "schema": PART | {"version": "0043"},
    "redis": PART | {"version": "8.2.1"},
    "nats": PART | {"version": "2.12.0"},
    "blobs": PART | {"version": "folder"},
}
PERCENTILES = ("p50", "p90", "p95", "p99")
NODE = {"node_id": "researcher", "runs": 1, "failed_runs": 0, "duration_seconds": NODE_SECONDS, "usd_cost": 0.0012,
        "input_tokens": 812, "output_tokens": 97}  # fmt: skip
COSTS = {"count": 34, "unpriced_count": 3, "usd_cost": 0.4182, "input_tokens": 27_608, "output_tokens": 3298}
RULE = {"max_age_days": 90, "keep_latest": 10, "keep_pinned": True, "keep_best": True, "keep_failed": False}
FOLLOWED = {"rule": RULE, "last_success_at": MADE, "last_counts": {"invocations": 120}, "last_error": None}
SUBJECT = {"id": "inv_7", "version_id": "ver_3", "workflow_id": "wf_1", "status": "completed", "ended_at": ENDED}
