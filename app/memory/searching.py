"""Searches by the spaces as this process knows them: what is asked is embedded where it must be, then found."""

from __future__ import annotations

from app.db.database import Answer, Reader
from app.embeddings.embedder import Embedder, EmbedderMissing, EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.errors import AppError, InvalidInput, Unavailable, invalid
from app.memory import search_store as store
from app.memory.embedding import vector_of
from app.memory.errors import EmbeddingFaulty, MemorySpaceMissing, MemorySpaceNotFound
from app.memory.held_spaces import HeldSpaces, named_of
from app.memory.search_schemas import MemorySearch, Mode
from app.memory.search_store import Question
from app.memory.space_store import Space
from app.memory.vectors import made, refusal_of
from app.settings import MemorySettings

TRIES = 3


class Search:
    """The search of memory, for one process, with how it looks."""

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._held = HeldSpaces()

    async def find(
        self, reader: Reader, embedder: Embedder | None, tenant_id: str, asked: MemorySearch, *, waits: bool
    ) -> Answer:
        """What is nearest, the best first. The embedding service is asked only where the call `waits` for it.

        Raises `MemorySpaceMissing`, `MemorySpaceNotFound`, `InvalidInput` for what cannot be searched for; where the
        query is to be embedded `EmbedderMissing`, `EmbedderUnavailable`, `EmbedderRefused`, `EmbeddingFaulty`.
        """
        space = await self._remembered(reader, tenant_id, asked.space)
        for _ in range(TRIES):
            refusal: AppError | None = None
            answer = None
            try:
                question = await _question(embedder, tenant_id, space, asked, waits=waits)
                answer = await store.search(reader, tenant_id, question, self._settings)
            except (InvalidInput, EmbeddingFaulty, EmbedderUnavailable, EmbedderRefused) as error:
                refusal = error
            if answer is not None:
                return answer
            # It is not the active one any more, or not there; then a refusal was about another one.
            before, space = space, await self._now(reader, tenant_id, asked.space)
            if refusal is not None and space == before:
                raise refusal
        raise Unavailable("Spaces changed meanwhile; try again.")

    async def _remembered(self, reader: Reader, tenant_id: str, name: str | None) -> Space:
        """The space as this process last read it; the search finds out whether it still is so."""
        try:
            return named_of(await self._held.of(reader, tenant_id), name)
        except MemorySpaceNotFound:
            return await self._now(reader, tenant_id, name)
        except MemorySpaceMissing as refusal:
            raise _absent(name, refusal) from None

    async def _now(self, reader: Reader, tenant_id: str, name: str | None) -> Space:
        """The space as it now is."""
        try:
            return named_of(await self._held.again(reader, tenant_id), name)
        except MemorySpaceMissing as refusal:
            raise _absent(name, refusal) from None


def _absent(name: str | None, refusal: MemorySpaceMissing) -> AppError:
    """A space that is named is not found, whether or not there are others."""
    return refusal if name is None else MemorySpaceNotFound("There is no such space.", name=name)


async def _question(
    embedder: Embedder | None, tenant_id: str, space: Space, asked: MemorySearch, *, waits: bool
) -> Question:
    mode = asked.mode or _mode(asked, may_embed=waits and embedder is not None)
    if asked.query is None and mode != "vector":
        raise invalid("/query", f"is needed for mode {mode}" if asked.mode else "is needed, or /embedding")
    if mode == "text":
        return Question(space, mode, None, asked)
    if asked.embedding is not None:
        return Question(space, mode, vector_of(asked.embedding, space.dimensions, space.metric), asked)
    if asked.query is None:
        raise invalid("/embedding", "is needed, or /query")
    if not waits:
        raise invalid("/embedding", "is needed within a batch, which does not wait for the embedding service")
    return Question(space, mode, await _embedded(embedder, tenant_id, space, asked.query), asked)


def _mode(asked: MemorySearch, *, may_embed: bool) -> Mode:
    """What is given decides, and what the service can make of it."""
    if asked.embedding is not None:
        return "vector" if asked.query is None else "hybrid"
    return "hybrid" if may_embed else "text"


async def _embedded(embedder: Embedder | None, tenant_id: str, space: Space, query: str) -> bytes:
    if embedder is None:
        raise EmbedderMissing(
            "No embedding service is configured, so the query cannot be embedded: give the embedding, or search by"
            " mode text."
        )
    (vector,) = await made(embedder, tenant_id, space, [query])
    if isinstance(vector, EmbeddingFault):
        raise refusal_of(vector, space)
    return vector
