"""How the streams of a server are, held against how they are declared."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.bus.declared import CONSUMER, CONSUMER_MISSING, STREAM_MISSING, Declared, Refused, ask
from app.bus.standing import ConsumerStanding, Standing

# Messages wait, and none was done for so much longer than one may take: then nobody takes any.
STALLED_SECONDS = 30.0


async def observe(client: Any, declared: Declared, seconds: float) -> Standing:
    """How a stream is. Raises `Refused`, and `connection.FAILURES`."""
    shown: dict[str, Any] = {
        "stream": declared.stream.value, "mode": "connected", "subject": declared.subject, "name": declared.name
    }  # fmt: skip
    try:
        told = await ask(client, f"STREAM.INFO.{declared.name}", seconds=seconds)
        of_consumer = None
        if declared.consumer is not None:
            of_consumer = await ask(client, f"CONSUMER.INFO.{declared.name}.{CONSUMER}", seconds=seconds)
    except Refused as refusal:
        if refusal.number not in (STREAM_MISSING, CONSUMER_MISSING):
            raise
        return Standing(**shown, missing=True, faults=(f"{refusal}",))
    state, config = told["state"], told["config"]
    oldest = _seconds_between(state["first_ts"], told["ts"]) if state["messages"] else None
    faults = [f"{name} is not as it is declared" for name in declared.differences(config)]
    if of_consumer is not None:
        found = declared.differences(of_consumer["config"])
        faults += [f"{name} of the consumer is not as it is declared" for name in found]
    return Standing(
        **shown,
        messages=state["messages"],
        bytes=state["bytes"],
        bytes_max=config["max_bytes"],
        age_seconds_max=config["max_age"] / 1e9,
        oldest_seconds=oldest,
        replicas=config["num_replicas"],
        consumer=None if of_consumer is None else _consumer(of_consumer),
        stalled=of_consumer is not None and _is_stalled(oldest, of_consumer),
        faults=faults + _late_copies(told),
    )


def _consumer(told: dict[str, Any]) -> ConsumerStanding:
    return ConsumerStanding(
        told["name"],
        pending=told["num_pending"],
        ack_pending=told["num_ack_pending"],
        redelivered=told["num_redelivered"],
        waiting=told["num_waiting"],
        ack_seconds=told["config"]["ack_wait"] / 1e9,
    )


def _is_stalled(oldest_seconds: float | None, told: dict[str, Any]) -> bool:
    """In a work queue the oldest message is the oldest that is not done."""
    longest = told["config"]["ack_wait"] / 1e9 + STALLED_SECONDS
    done_at = told["ack_floor"].get("last_active")
    silent = done_at is None or _seconds_between(done_at, told["ts"]) > longest
    return silent and oldest_seconds is not None and oldest_seconds > longest


def _late_copies(told: dict[str, Any]) -> list[str]:
    """The copies of a stream that are not at hand; only a cluster has any."""
    others = (told.get("cluster") or {}).get("replicas") or ()
    late = [one["name"] for one in others if one.get("offline") or not one.get("current")]
    return [f"the copy on {name} is behind or away" for name in late]


def _seconds_between(earlier: str, later: str) -> float:
    return max(0.0, (_instant(later) - _instant(earlier)).total_seconds())


def _instant(told: str) -> datetime:
    # Nanoseconds are more digits than Python reads.
    whole, _, rest = told.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{rest[:6].ljust(6, '0')}+00:00")
