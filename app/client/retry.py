"""When a call is tried again, and how long it waits first."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from app.client.errors import error_of
from app.client.reply import Reply

Outcome = Reply | httpx.TransportError
"""What one try came to."""

_PASSING_FAULTS = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError)
_PASSING_STATUSES = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Retry:
    """Bounded tries with jittered, doubling pauses.

    Lost connections, 429, 502, 503, 504 and 409 `idempotency_in_progress` are tried again, a `Retry-After` is waited
    out when it is not above `retry_after_max_seconds`; every other answer is final. Trying a write again is safe
    because all tries of one call carry the same Idempotency-Key.
    """

    attempt_max: int = 5
    first_pause_seconds: float = 0.2
    pause_max_seconds: float = 5.0
    retry_after_max_seconds: float = 60.0

    def pause_seconds(self, attempt: int, outcome: Outcome) -> float | None:
        """How long to wait after the given try (counted from 1) before the next; None when this outcome is final."""
        if attempt >= self.attempt_max or not _is_passing(outcome):
            return None
        ceiling = min(self.pause_max_seconds, self.first_pause_seconds * 2.0 ** (attempt - 1))
        pause = ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
        asked = outcome.retry_after_seconds if isinstance(outcome, Reply) else None
        if asked is None:
            return pause
        return asked + pause if asked <= self.retry_after_max_seconds else None


def _is_passing(outcome: Outcome) -> bool:
    if not isinstance(outcome, Reply):
        return isinstance(outcome, _PASSING_FAULTS)
    return outcome.status in _PASSING_STATUSES or (
        outcome.status == 409 and error_of(outcome).code == "idempotency_in_progress"
    )
