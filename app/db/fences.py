"""What a write happens under: the attempt and the lease that its caller names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fence:
    """The attempt under which a write happens: `Submission-Attempt: <submission_id>;<attempt_id>`."""

    submission_id: str
    attempt_id: str


@dataclass(frozen=True)
class LeaseFence:
    """The lease under which a write happens: `Lease: <name>;<fencing_token>`."""

    name: str
    token: int


@dataclass(frozen=True)
class Fences:
    """What a write happens under, held to its commit: an attempt, a lease, both."""

    attempt: Fence | None = None
    lease: LeaseFence | None = None

    def __bool__(self) -> bool:
        return self.attempt is not None or self.lease is not None


NO_FENCES = Fences()
