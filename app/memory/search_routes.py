"""Searching memory over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.embeddings.embedder import EmbedderMissing, EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.errors import AppError, InvalidInput, Unavailable, invalid
from app.http.call import Call
from app.http.endpoint import Endpoint, Routes
from app.memory import search_store as store
from app.memory.embedding import vector_of
from app.memory.errors import EmbeddingFaulty, MemorySpaceMissing, MemorySpaceNotFound
from app.memory.search_schemas import MemoryFound, MemorySearch
from app.memory.search_store import Question
from app.memory.space_store import HeldSpaces, Space, named_of
from app.settings import MemorySettings

TRIES = 3


def routes_of(settings: MemorySettings) -> list[Endpoint]:
    """The operation, with how it looks."""
    routes, held = Routes("memory"), HeldSpaces()

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
        given = body.given()
        space = await _remembered(held, call, body.space)
        for _ in range(TRIES):
            refusal, answer = None, None
            try:
                question = await _question(call, body, space, given)
                answer = await store.search(call.reader, call.tenant_id, question, settings)
            except (InvalidInput, EmbeddingFaulty) as error:
                refusal = error
            if answer is not None:
                return answer
            # It is not the active one any more, or not there; then a refusal was about another one.
            before, space = space, await _now(held, call, body.space)
            if refusal is not None and space == before:
                raise refusal
        raise Unavailable("Spaces changed meanwhile; try again.")

    return list(routes)


async def _remembered(held: HeldSpaces, call: Call, name: str | None) -> Space:
    """The space as this process last read it; the search finds out whether it still is so."""
    try:
        return named_of(await held.of(call.reader, call.tenant_id), name)
    except MemorySpaceNotFound:
        return await _now(held, call, name)
    except MemorySpaceMissing as refusal:
        raise _absent(name, refusal) from None


async def _now(held: HeldSpaces, call: Call, name: str | None) -> Space:
    """The space as it now is."""
    try:
        return named_of(await held.again(call.reader, call.tenant_id), name)
    except MemorySpaceMissing as refusal:
        raise _absent(name, refusal) from None


def _absent(name: str | None, refusal: MemorySpaceMissing) -> AppError:
    """A space that is named is not found, whether or not there are others."""
    return refusal if name is None else MemorySpaceNotFound("There is no such space.", name=name)


async def _question(call: Call, body: MemorySearch, space: Space, given: dict[str, object]) -> Question:
    mode = body.mode or _mode(call, body)
    if body.query is None and mode != "vector":
        raise invalid("/query", f"is needed for mode {mode}" if body.mode else "or /embedding is needed")
    if mode == "text":
        return Question(space, mode, None, given)
    if body.embedding is not None:
        return Question(space, mode, vector_of(body.embedding, space.dimensions, space.metric), given)
    return Question(space, mode, await _embedded(call, body.query, space), given)


def _mode(call: Call, body: MemorySearch) -> str:
    """What is given decides, and what the service can make of it."""
    if body.embedding is not None:
        return "vector" if body.query is None else "hybrid"
    return "text" if call.batched or call.ground.embedder is None else "hybrid"


async def _embedded(call: Call, query: str | None, space: Space) -> bytes:
    if query is None:
        raise invalid("/embedding", "or /query is needed")
    if call.batched:
        raise invalid("/embedding", "is needed within a batch, which does not wait for the embedding service")
    embedder = call.ground.embedder
    if embedder is None:
        raise EmbedderMissing(
            "No embedding service is configured, so the query cannot be embedded: give the embedding, or search by"
            " mode text."
        )
    (made,) = await embedder.embed(call.tenant_id, space.model, space.dimensions, [query])
    if isinstance(made, EmbeddingFault):
        raise EmbeddingFaulty(made.detail, reason=made.code, **made.facts)
    return vector_of(made, space.dimensions, space.metric)
