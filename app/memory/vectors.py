"""Vectors that the embedding service makes of texts, held to the space that they are for."""

from __future__ import annotations

from collections.abc import Sequence

from app.embeddings.embedder import Embedder, EmbeddingFault
from app.errors import InvalidInput
from app.memory.embedding import vector_of
from app.memory.errors import EmbeddingFaulty
from app.memory.space_store import Space


async def made(embedder: Embedder, tenant_id: str, space: Space, texts: Sequence[str]) -> list[bytes | EmbeddingFault]:
    """For each text, in order, its vector in the space, or why there is none.

    Raises `EmbedderUnavailable`, `EmbedderRefused`. No connection to the database may be held meanwhile.
    """
    found = await embedder.embed(tenant_id, space.model, space.dimensions, texts)
    return [one if isinstance(one, EmbeddingFault) else _vector(one, space) for one in found]


def _vector(numbers: Sequence[float], space: Space) -> bytes | EmbeddingFault:
    try:
        return vector_of(numbers, space.dimensions, space.metric)
    except InvalidInput as refusal:
        return EmbeddingFault("embedding_unusable", refusal.detail)


def refusal_of(fault: EmbeddingFault, space: Space) -> EmbeddingFaulty:
    """The refusal of whatever needs the vector that there is not."""
    return EmbeddingFaulty(fault.detail, space=space.name, reason=fault.code, **fault.facts)
