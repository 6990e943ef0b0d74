"""The parts that the service stands on, and how each of them is now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.bus.standing import Standing
from app.bus.work import Streams
from app.db.probe import Probe
from app.errors import Unavailable

# Each look has this long, all of them together at the same time; `/readyz` promises two seconds.
LOOK_SECONDS = 1.5


class Part(Protocol):
    """A server beside PostgreSQL."""

    async def check(self, seconds: float) -> str: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class State:
    """How a part is: `connected`, `embedded` (none is configured) or `degraded` (configured, but away)."""

    mode: str
    version: str | None = None
    detail: str | None = None
    ok: bool = True

    def shown(self) -> dict[str, Any]:
        """As JSON."""
        told = {"mode": self.mode, "version": self.version, "detail": self.detail}
        return {"status": "up" if self.ok else "down", **{name: value for name, value in told.items() if value}}


@dataclass(frozen=True)
class Parts:
    """PostgreSQL, and the others by name; None stands for an embedded one."""

    probe: Probe
    others: dict[str, Part | None] = field(default_factory=dict)
    work: Streams | None = None

    async def states(self) -> dict[str, State]:
        """How each part is, within two seconds."""
        names = list(self.others)
        looks = asyncio.gather(*(self._other(self.others[name]) for name in names))
        database, others = await asyncio.gather(self._database(), looks)
        return {**database, **dict(zip(names, others, strict=True))}

    async def streams(self) -> Sequence[Standing]:
        """How each stream is, within two seconds; none where they cannot be asked."""
        if self.work is None:
            return ()
        try:
            return await self.work.look(LOOK_SECONDS)
        except Unavailable:
            return ()  # `states` says why.

    async def _database(self) -> dict[str, State]:
        try:
            health = await self.probe.look(LOOK_SECONDS)
        except Unavailable as refusal:
            return {
                "postgres": State("degraded", detail=refusal.detail, ok=False),
                "schema": State("degraded", detail="PostgreSQL could not be asked.", ok=False),
            }
        fault = health.revision.fault
        return {
            "postgres": State("connected", health.version),
            "schema": State(
                "connected" if fault is None else "degraded", health.revision.current, fault, fault is None
            ),
        }

    @staticmethod
    async def _other(part: Part | None) -> State:
        if part is None:
            return State("embedded")
        try:
            return State("connected", await part.check(LOOK_SECONDS))
        except Unavailable as refusal:
            return State("degraded", detail=refusal.detail, ok=False)

    async def close(self) -> None:
        """Close every connection."""
        await self.probe.close()
        for part in self.others.values():
            if part is not None:
                await part.close()
