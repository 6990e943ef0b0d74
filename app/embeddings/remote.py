"""Embeddings from an endpoint: each text asked for once, together with others, and kept in the cache."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence

from app.cache.cache import Cache, Key
from app.cache.flights import Flights
from app.embeddings.answers import Found, numbers_of
from app.embeddings.embedder import EmbedderUnavailable, EmbeddingFault
from app.embeddings.endpoint import Endpoint
from app.settings import EmbedderSettings

# The kind of the cache's keys.
KIND = "embedding"
# Texts of one request to the endpoint are no longer than this in all, or it holds one text alone.
BATCH_BYTES_MAX = 4 * 1024 * 1024

Faulty = Callable[[str], None]
"""Called with the code of each fault."""
_Space = tuple[str, str, int]


class RemoteEmbedder:
    """Makes embeddings by an endpoint. Equal texts that are wanted at the same time are asked for once."""

    def __init__(
        self,
        settings: EmbedderSettings,
        endpoint: Endpoint,
        cache: Cache,
        faulty: Faulty = lambda _code: None,
    ) -> None:
        self._settings, self._endpoint, self._cache, self._faulty = settings, endpoint, cache, faulty
        self._flights = Flights()
        # What is wanted in this turn of the loop, by tenant, model and dimensions.
        self._wanted: dict[_Space, list[tuple[str, asyncio.Future[Found]]]] = {}
        self._batches: set[asyncio.Task[None]] = set()

    async def embed(
        self, tenant_id: str, model: str, dimensions: int, texts: Sequence[str]
    ) -> list[list[float] | EmbeddingFault]:
        """For each text, in order, its embedding or what is wrong with it.

        Raises `EmbedderUnavailable`, after `wait_seconds` at the latest, and `EmbedderRefused`.
        """
        space = (tenant_id, model, dimensions)
        different = list(dict.fromkeys(texts))
        try:
            async with asyncio.timeout(self._settings.wait_seconds):
                kept = await self._kept(space, different)
                missing = [text for text in different if text not in kept]
                # Each fails for itself, and all are waited for: what comes of the others is kept for the next try.
                made = await asyncio.gather(*(self._one(space, text) for text in missing), return_exceptions=True)
        except TimeoutError:
            raise EmbedderUnavailable(
                f"The embedding service gave no answer within {self._settings.wait_seconds:g} seconds."
            ) from None
        for text, one in zip(missing, made, strict=True):
            if isinstance(one, BaseException):
                raise one
            kept[text] = numbers_of(one) if isinstance(one, bytes) else one
        return [kept[text] for text in texts]

    async def close(self) -> None:
        """End what is under way."""
        for task in self._batches:
            task.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)
        await self._endpoint.close()

    async def _kept(self, space: _Space, texts: Sequence[str]) -> dict[str, list[float] | EmbeddingFault]:
        """The embeddings that the cache has, by text."""
        if not self._settings.cache_seconds:
            return {}
        found = await asyncio.gather(*(self._cache.get(_key(space, text)) for text in texts))
        sized = {text: one for text, one in zip(texts, found, strict=True) if one and len(one) == 4 * space[2]}
        read = {text: numbers_of(one) for text, one in sized.items()}
        # What is no embedding, whoever put it there, is made anew. The sum of single-precision numbers is finite.
        return {text: numbers for text, numbers in read.items() if any(numbers) and math.isfinite(sum(numbers))}

    async def _one(self, space: _Space, text: str) -> Found:
        return await self._flights.one(_key(space, text), lambda: self._load(space, text))

    async def _load(self, space: _Space, text: str) -> Found:
        """Want a text, together with what else is wanted in this turn of the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found] = loop.create_future()
        if not self._wanted:
            loop.call_soon(self._send)
        self._wanted.setdefault(space, []).append((text, future))
        return await future

    def _send(self) -> None:
        wanted, self._wanted = self._wanted, {}
        for space, those in wanted.items():
            for batch in _batches(those, self._settings.batch_max):
                task = asyncio.create_task(self._batch(space, batch), name="embeddings")
                self._batches.add(task)
                task.add_done_callback(self._batches.discard)

    async def _batch(self, space: _Space, batch: Sequence[tuple[str, asyncio.Future[Found]]]) -> None:
        """Ask for texts and tell who wants them. What was found is kept even where nobody wants it any more."""
        texts = [text for text, _ in batch]
        try:
            found = await self._endpoint.ask(space[1], space[2], texts)
            # Kept before anybody is told, so that who asks again finds it.
            await self._keep(space, texts, found)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), one in zip(batch, found, strict=True):
            if isinstance(one, EmbeddingFault):
                self._faulty(one.code)
            if not future.done():
                future.set_result(one)

    async def _keep(self, space: _Space, texts: Sequence[str], found: Sequence[Found]) -> None:
        if not self._settings.cache_seconds:
            return
        await asyncio.gather(
            *(
                self._cache.put(_key(space, text), one, self._settings.cache_seconds)
                for text, one in zip(texts, found, strict=True)
                if isinstance(one, bytes)
            )
        )


def _key(space: _Space, text: str) -> Key:
    tenant_id, model, dimensions = space
    told = json.dumps([model, dimensions]).encode() + hashlib.sha256(text.encode()).digest()
    return Key(KIND, tenant_id, hashlib.sha256(told).hexdigest())


def _batches(
    wanted: Sequence[tuple[str, asyncio.Future[Found]]], count_max: int
) -> Iterator[list[tuple[str, asyncio.Future[Found]]]]:
    batch: list[tuple[str, asyncio.Future[Found]]] = []
    size = 0
    for text, future in wanted:
        more = len(text.encode())
        if batch and (len(batch) == count_max or size + more > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append((text, future))
        size += more
    if batch:
        yield batch
