"""What becomes of a delivery after an attempt."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.webhooks.sender import Outcome

# A pause is lengthened by up to this share of it, at random, so that what failed together does not come back together.
JITTER = 0.25
GONE = 410


@dataclass(frozen=True)
class Delivered:
    """The endpoint has taken it."""


@dataclass(frozen=True)
class Again:
    """The attempt failed, and the next one is due after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Dead:
    """Nobody will try again by himself; `gone` where the endpoint itself said so and wants no other delivery either."""

    reason: str
    gone: bool = False


Decision = Delivered | Again | Dead


def pauses(schedule: str) -> tuple[float, ...]:
    """The pauses of the setting `schedule`, in seconds."""
    return tuple(float(pause) for pause in schedule.split(","))


def decide(
    outcome: Outcome,
    round_count: int,
    schedule: Sequence[float],
    retry_after_seconds_max: float,
    chance: Callable[[], float] = random.random,
) -> Decision:
    """What follows from the outcome of the `round_count`-th attempt of a round, counted from 1.

    2xx is delivered and 410 is gone. Anything else is tried again after the schedule's pause or what `Retry-After`
    asked for, whichever is longer; the latter counts up to its maximum. Up to a quarter is added to that at random, and
    nothing is ever taken away. After the last pause the delivery is dead.
    """
    if outcome.status_code is not None and 200 <= outcome.status_code < 300:
        return Delivered()
    if outcome.status_code == GONE:
        return Dead("gone", gone=True)
    if round_count > len(schedule):
        return Dead("attempts_exhausted")
    asked = min(outcome.retry_after_seconds or 0.0, retry_after_seconds_max)
    return Again(max(schedule[round_count - 1], asked) * (1 + JITTER * chance()))
