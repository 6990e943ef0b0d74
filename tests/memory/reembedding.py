"""What the tests of re-embedding arrange and look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.background.work import JobRunner
from app.db.sql import Statement
from app.db.vectors import unpacked
from app.http.service import Service
from app.memory.embedding_store import REEMBED_KIND
from app.memory.partitions import table_of
from app.memory.reembedding import Reembedding
from tests.conftest import new_tenant, running, settings_for
from tests.memory.embedding_server import EmbeddingServer, vector

BATCH = 4

_REMEMBER = Statement("""
INSERT INTO memory_items (tenant_id, kind, id, content, metadata, digest)
SELECT :tenant_id, g.kind, g.id, g.content, '{"of": "test"}', '' FROM unnest(
  CAST(:kinds AS text[]), CAST(:ids AS text[]), CAST(:contents AS text[])) AS g (kind, id, content)""")
_NUMBER = Statement("SELECT number FROM memory_spaces WHERE tenant_id = :tenant_id AND name = :name")


class Memory:
    """The memory of one tenant at one service."""

    def __init__(self, service: Service, client: httpx.AsyncClient, server: EmbeddingServer) -> None:
        self.service, self.client, self.server = service, client, server
        self.tenant = client.headers["x-test-tenant"]
        self.database = service.ground.database

    def runner(self, lease_seconds: float = 30) -> JobRunner:
        """A runner of the jobs of this service."""
        kinds = {REEMBED_KIND: Reembedding(self.service.ground.embedder, BATCH)}
        return JobRunner(kinds, lease_seconds, self.service.ground.hints)

    async def space(self, name: str, dimensions: int = 8, model: str | None = None) -> None:
        """A space of a model of its own."""
        body = {"model": model or f"{name}-{dimensions}", "dimensions": dimensions}
        made = await self.client.put(f"/v1/memory/spaces/{name}", json=body)
        assert made.status_code == 201, made.text

    async def remember(self, *contents: str, kind: str = "document", prefix: str = "i") -> None:
        """Items that have an embedding nowhere."""
        ids = [f"{prefix}{n:04}" for n in range(len(contents))]
        kinds = [kind] * len(ids)
        await self.database.rows(_REMEMBER, tenant_id=self.tenant, kinds=kinds, ids=ids, contents=list(contents))

    async def reembed(self, name: str) -> str:
        """Where the job is."""
        answer = await self.client.post(f"/v1/memory/spaces/{name}/reembed")
        assert answer.status_code == 202, answer.text
        return answer.headers["location"]

    async def job(self, path: str) -> dict[str, Any]:
        """The job as it now is."""
        found: dict[str, Any] = (await self.client.get(path)).json()
        return found

    async def number(self, name: str) -> int:
        """The number of a space."""
        row = await self.database.row(_NUMBER, tenant_id=self.tenant, name=name)
        assert row is not None
        return int(row["number"])

    async def embedded(self, name: str) -> dict[str, list[float] | None]:
        """What lies in a space, by id."""
        statement = Statement(f"SELECT id, embedding FROM {table_of(await self.number(name))} WHERE tenant_id = :t")
        rows = await self.database.rows(statement, t=self.tenant)
        return {row["id"]: None if row["embedding"] is None else list(unpacked(row["embedding"])) for row in rows}


def approximately(model: str, *contents: str, prefix: str = "i") -> dict[str, Any]:
    """What lies in a space of this model once these are embedded."""
    return {f"{prefix}{n:04}": pytest.approx(vector(model, text), abs=1e-6) for n, text in enumerate(contents)}


@asynccontextmanager
async def remembering(url: str, server: EmbeddingServer, **groups: dict[str, Any]) -> AsyncIterator[Memory]:
    """A service on this database with this embedding service, and a tenant of its own."""
    embedder = {"url": server.url, "attempts_max": 2, "wait_seconds": 5, **groups.pop("embedder", {})}
    async with (
        running(settings_for(url, embedder=embedder, **groups)) as service,
        await new_tenant(service) as client,
    ):
        yield Memory(service, client, server)


def numbered(count: int, words: Sequence[str] = ("red", "green", "blue")) -> list[str]:
    """So many different texts."""
    return [f"{words[n % len(words)]} thing {n}" for n in range(count)]
