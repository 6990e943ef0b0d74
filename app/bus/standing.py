"""How streams are, as it is shown and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ConsumerStanding:
    """The consumer that every process takes from: what waits for it, and what is out with it."""

    name: str
    pending: int
    ack_pending: int
    redelivered: int
    waiting: int
    ack_seconds: float


@dataclass(frozen=True)
class Standing:
    """A stream: `connected` in NATS, `embedded` in this process, `degraded` for the embedded one that stands in.

    `missing` says that it, or its consumer, is not there, `faults` what is not as it is declared, and `stalled` that
    messages wait and none has been done for long.
    """

    stream: str
    mode: str
    subject: str | None = None
    name: str | None = None
    messages: int = 0
    bytes: int | None = None
    bytes_max: int | None = None
    age_seconds_max: float | None = None
    oldest_seconds: float | None = None
    replicas: int | None = None
    consumer: ConsumerStanding | None = None
    missing: bool = False
    stalled: bool = False
    faults: Sequence[str] = ()

    def shown(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "faults": list(self.faults)}
