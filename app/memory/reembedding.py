"""The job `memory.reembed`: whatever has no embedding in a space gets one, in bounded steps, while others write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.db.database import Database, Transaction
from app.embeddings.embedder import Embedder, EmbedderMissing, EmbeddingFault
from app.jobs.store import Claimed, Standing, Step
from app.memory import embedding_store as store
from app.memory import vectors
from app.memory.embedding_store import Lacking
from app.memory.errors import MemorySpaceNotFound
from app.memory.space_store import Space, count

# So many of what failed are named in the report; all are counted.
REPORTED_MAX = 20
# An item that is changed each time between its reading and its writing is left to who changes it.
TRIES_MAX = 3


@dataclass(frozen=True)
class Place:
    """Where the job stands: after which item, how often it tried to get on from there, and what it has seen so far."""

    after: tuple[str, str] = ("", "")
    tries: int = 0
    done: int = 0
    failed: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, standing: Standing) -> Place:
        """The place that the last step left."""
        left = standing.resume_from or {}
        return cls(
            tuple(left.get("after", cls.after)),
            left.get("tries", 0),
            left.get("done", 0),
            tuple(left.get("failed", ())),
        )

    def left(self) -> dict[str, Any]:
        """The same, as the next step finds it."""
        return {"after": list(self.after), "tries": self.tries, "done": self.done, "failed": list(self.failed)}


@dataclass(frozen=True)
class Made:
    """What a step writes: items, and for each its vector or why there is none."""

    space: Space
    items: Sequence[Lacking]
    found: Sequence[bytes | EmbeddingFault] = ()
    total: int | None = None


@dataclass
class _Counted:
    """What became of the items of a step."""

    embedded: int = 0
    changed: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)


class Reembedding:
    """A kind of job: so many items a step, embedded while nothing is held."""

    def __init__(self, embedder: Embedder | None, batch: int) -> None:
        self._embedder, self._batch = embedder, batch

    async def prepare(self, database: Database, job: Claimed, standing: Standing) -> Made:
        """The next items that the space lacks, embedded.

        Raises `EmbedderUnavailable`, for which the job waits; `EmbedderRefused`, `EmbedderMissing`,
        `MemorySpaceNotFound`, with which it ends.
        """
        if self._embedder is None:
            raise EmbedderMissing("This process has no embedding service; set CAIRN_EMBEDDER__URL for it too.")
        space = await store.space_numbered(database, job.tenant_id, standing.arguments["number"])
        if space is None:
            raise _deleted(standing)
        total = None
        if standing.resume_from is None:
            total = (await count(database, job.tenant_id, space)).lacking
        items = await store.lacking(database, job.tenant_id, space, Place.of(standing).after, self._batch)
        if not items:
            return Made(space, items, total=total)
        found = await vectors.made(self._embedder, job.tenant_id, space, [item.content for item in items])
        return Made(space, items, found, total)

    async def carry_out(self, transaction: Transaction, job: Claimed, standing: Standing, prepared: Made) -> Step:
        """Write them where nothing has changed. The job goes on after the last, or before the first that has."""
        place = Place.of(standing)
        await store.hold_spaces(transaction, job.tenant_id)
        if await store.space_numbered(transaction, job.tenant_id, prepared.space.number) is None:
            raise _deleted(standing)
        if not prepared.items:
            report = {"space": prepared.space.name, "failed": list(place.failed)}
            return Step(place.left(), total=place.done, report=report, finished=True)
        counted = _Counted()
        place = await self._write(transaction, job.tenant_id, prepared, place, counted)
        done = counted.embedded + len(counted.failed) + counted.changed
        failed = (*place.failed, *counted.failed)[:REPORTED_MAX]
        place = replace(place, done=place.done + done, failed=failed)
        counts = {"embedded": counted.embedded, "failed": len(counted.failed), "changed": counted.changed}
        report = {"space": prepared.space.name, "failed": list(failed)}
        return Step(place.left(), done, counts, total=prepared.total, report=report)

    async def _write(
        self, transaction: Transaction, tenant_id: str, prepared: Made, place: Place, counted: _Counted
    ) -> Place:
        """Write what is good, count what came of it, and say from where to go on."""
        pairs = list(zip(prepared.items, prepared.found, strict=True))
        good = [(item, found) for item, found in pairs if not isinstance(found, EmbeddingFault)]
        if good:
            counted.embedded = await store.write(transaction, tenant_id, prepared.space, good)
        items = [item for item, _ in good]
        changed = await store.still_lacking(transaction, tenant_id, prepared.space, items) if items else set()
        handled = next((n for n, item in enumerate(prepared.items) if item.key in changed), len(pairs))
        if handled == 0:
            if place.tries + 1 < TRIES_MAX:
                return replace(place, tries=place.tries + 1)
            handled, counted.changed = 1, 1
        counted.failed = [_failed(item, found) for item, found in pairs[:handled] if isinstance(found, EmbeddingFault)]
        return replace(place, after=prepared.items[handled - 1].key, tries=0)


def _failed(item: Lacking, fault: EmbeddingFault) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.id, "code": fault.code, "detail": fault.detail, **fault.facts}


def _deleted(standing: Standing) -> MemorySpaceNotFound:
    return MemorySpaceNotFound("The space was deleted.", name=standing.arguments["space"])
