"""What makes embeddings of texts, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.errors import Conflict, Unavailable


class EmbedderUnavailable(Unavailable):
    """The service that makes embeddings is away, slow or busy; nothing was stored. Send it again later, or with the
    embeddings in the request.
    """

    code, title = "embedder_unavailable", "The embedding service does not answer"


class EmbedderRefused(Conflict):
    """The service that makes embeddings refuses what it is asked: its key, its address, or the model of the space is
    wrong. Nothing was stored; an operator looks at CAIRN_EMBEDDER__…, or embeddings come with the request.
    """

    code, title = "embedder_refused", "The embedding service refuses"


class EmbedderMissing(Conflict):
    """Texts are to be embedded, and no service for it is configured: send the embedding itself, or set
    CAIRN_EMBEDDER__URL.
    """

    code, title = "embedder_missing", "No embedding service is configured"


@dataclass(frozen=True)
class EmbeddingFault:
    """Why one text has no embedding: a stable code, one sentence, and facts such as `expected` and `given`.

    The code is `embedding_missing`, `embedding_size`, `embedding_not_finite`, `embedding_zero`, `embedding_malformed`
    or `embedding_refused`.
    """

    code: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)


class Embedder(Protocol):
    """Makes embeddings. No connection to the database may be held while it is waited for."""

    async def embed(
        self, tenant_id: str, model: str, dimensions: int, texts: Sequence[str]
    ) -> list[list[float] | EmbeddingFault]:
        """For each text, in order, its embedding of so many numbers in single precision, or what is wrong with it.

        Raises `EmbedderUnavailable` where the service is away or slow, and `EmbedderRefused` where it refuses whatever
        the text; then no text has an embedding.
        """

    async def close(self) -> None:
        """End what is under way."""
