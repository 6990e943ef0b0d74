"""Searching memory over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.embeddings.embedder import EmbedderMissing, EmbedderRefused, EmbedderUnavailable
from app.http.call import Call
from app.http.endpoint import Endpoint, Routes
from app.memory.errors import EmbeddingFaulty, MemorySpaceMissing, MemorySpaceNotFound
from app.memory.search_schemas import MemoryFound, MemorySearch
from app.memory.searching import Search
from app.settings import MemorySettings


def routes_of(settings: MemorySettings) -> list[Endpoint]:
    """The operation, with how it looks."""
    routes, search = Routes("memory"), Search(settings)

    @routes.post(
        "/v1/memory/search",
        scope="memory:read",
        reads=True,
        response_model=MemoryFound,
        response_model_exclude_unset=True,
        errors=(
            MemorySpaceMissing, MemorySpaceNotFound, EmbedderMissing, EmbedderRefused, EmbedderUnavailable,
            EmbeddingFaulty,
        ),
    )  # fmt: skip
    async def search_memory(call: Call, body: MemorySearch) -> Answer:
        """What is nearest to a query, the best first: by meaning, by words, or by both.

        `top_k` items are found whenever so many match, however narrow the filter; what has expired is not. `exact` says
        whether everything that matches was compared. Both ways together are fused by reciprocal rank. A query is
        embedded by the embedding service; within a batch the embedding must be given.
        """
        ground = call.ground
        return await search.find(call.reader, ground.embedder, call.tenant_id, body, waits=not call.batched)

    return list(routes)
