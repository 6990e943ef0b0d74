"""Collection as the tests run it: with the holders of the service, and time that passes when they say so."""

from __future__ import annotations

from app.artifacts.jobs import Collection
from app.db.sql import Statement
from app.http.service import Service
from app.surface import HOLDERS

GRACE_SECONDS = 3600.0
AGE = Statement(
    "UPDATE artifacts SET touched_at = touched_at - interval '2 hours', changed_at = changed_at - interval '2 hours'"
)
STATES = Statement("SELECT encode(hash, 'hex') AS hash, state, generation FROM artifacts ORDER BY created_at")


def collection_of(service: Service) -> Collection:
    """The collection of a service, with a grace period of an hour."""
    return Collection(service.ground.blobs, HOLDERS, GRACE_SECONDS)


async def age(service: Service) -> None:
    """Two hours pass."""
    await service.ground.database.rows(AGE)


async def states(service: Service) -> dict[str, str]:
    """The state of each artifact, by hash."""
    return {row["hash"]: row["state"] for row in await service.ground.database.rows(STATES)}
