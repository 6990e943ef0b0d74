"""Documents and records over HTTP: the same operations under two names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.db.database import Answer
from app.embeddings.embedder import EmbedderRefused, EmbedderUnavailable
from app.errors import MalformedRequest, invalid
from app.http.call import Call
from app.http.cutting import read_payload
from app.http.endpoint import Routes
from app.http.fields import JsonObject
from app.http.paging import page
from app.memory import item_store as store
from app.memory.errors import (
    EmbeddingFaulty,
    MemoryItemConflict,
    MemoryItemNotFound,
    MemorySpaceMissing,
    MemorySpaceNotFound,
)
from app.memory.item_schemas import Answers, Item, ItemChange, ItemList, ItemPage, ItemQuery, NewItem, NewItems
from app.memory.remembering import Memory
from app.settings import MemorySettings

H = TypeVar("H", bound=Callable[..., object])
WRITING = (MemorySpaceMissing, MemorySpaceNotFound, EmbeddingFaulty, EmbedderRefused, EmbedderUnavailable)


def routes_of(settings: MemorySettings) -> Routes:
    """The operations on documents and on records."""
    routes, memory = Routes("memory"), Memory(settings.content_bytes_max)
    for kind in ("document", "record"):
        _add(routes, memory, kind)
    return routes


def _named(name: str, kind: str) -> Callable[[H], H]:
    """The handler under the name of its kind, which names the operation."""

    def named(handler: H) -> H:
        handler.__name__ = name.format(kind)
        handler.__doc__ = (handler.__doc__ or "").replace("item", kind)
        return handler

    return named


def _add(routes: Routes, memory: Memory, kind: str) -> None:
    path = f"/v1/memory/{kind}s"
    one = f"{path}/{{item_id}}"

    @routes.post(
        path,
        scope="memory:write",
        response_model=Item | Answers,
        status_code=201,
        batchable=False,
        errors=(MemoryItemConflict, *WRITING),
        responses={207: {"model": Answers, "description": "Some were refused; each is answered"}},
    )
    @_named("create_memory_{}s", kind)
    async def create(call: Call, body: NewItem | NewItems) -> Answer:
        """Remember one item, or up to 1,000 as `{"items": [...]}`.

        Of many, each is stored or refused by itself and answered with its `status`: 201 where all are stored and any
        is new, 200 where all were there, 207 where some were refused. An id that was created with the same fields is a
        replay. Without `embedding` the embedding service makes it; where there is none, the item is found by its words
        alone, and `embedded` is false.
        """
        many = isinstance(body, NewItems)
        # An item of many that is not as documented is its refusal.
        sent = body.items if isinstance(body, NewItems) else [body]
        given = [one.given() if isinstance(one, NewItem) else one for one in sent]
        return await memory.remember(call.writer, call.ground.embedder, call.tenant_id, kind, given, many=many)

    @routes.get(path, scope="memory:read", response_model=ItemPage)
    @_named("list_memory_{}s", kind)
    async def list_items(call: Call, query: ItemList) -> Answer:
        """The items of this tenant, the newest first; a page ends once it has 16 MiB of content."""
        given = {**query.filters(), "kind": kind}
        if query.metadata is not None:
            given["metadata"] = _contained(query.metadata)
        return await page(call, store.ITEMS, query, given)

    @routes.get(one, scope="memory:read", response_model=Item, errors=(MemoryItemNotFound,))
    @_named("get_memory_{}", kind)
    async def get(call: Call, item_id: str, query: ItemQuery) -> Answer:
        """An item; `include=embedding` shows its numbers in the active space."""
        if query.include not in (None, "", "embedding"):
            raise invalid("include", "may name only embedding")
        embedding = query.include == "embedding"
        return await memory.get(call.reader, call.tenant_id, kind, item_id, embedding=embedding)

    @routes.patch(
        one, scope="memory:write", response_model=Item, batchable=False, errors=(MemoryItemNotFound, *WRITING)
    )
    @_named("patch_memory_{}", kind)
    async def patch(call: Call, item_id: str, body: ItemChange) -> Answer:
        """Update the fields given of an item.

        Content that changes is embedded anew, by `embedding` or by the embedding service; where neither makes one, the
        item has no embedding any more, in no space, and is found by its words alone.
        """
        return await memory.change(
            call.writer, call.ground.embedder, call.tenant_id, kind, item_id, body.given(), call.if_match
        )

    @routes.delete(one, scope="memory:write", status_code=204, errors=(MemoryItemNotFound,))
    @_named("delete_memory_{}", kind)
    async def delete(call: Call, item_id: str) -> Answer:
        """Forget an item, in every space."""
        return await store.delete(call.writer, call.tenant_id, kind, item_id, call.if_match)


def _contained(text: str) -> bytes:
    try:
        return JsonObject.checked(read_payload(text.encode()))
    except (MalformedRequest, ValueError):
        raise invalid("metadata", "must be a JSON object that jsonb can hold") from None
