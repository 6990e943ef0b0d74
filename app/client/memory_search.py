"""Calls that search memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from app.client.call import Call, Items
from app.client.endpoint import Resource, endpoint
from app.client.exact import dump, elements
from app.client.record import Record
from app.client.reply import Reply

M = TypeVar("M")


class MemoryHit(Record):
    """An item that was found; `explain` where it was asked for."""

    id: str
    kind: str
    score: float
    content: str | None
    metadata: dict[str, Any]
    session_id: str | None
    invocation_id: str | None
    created_at: datetime
    explain: dict[str, Any] | None


class MemoryFound(Items[MemoryHit]):
    """What a search found, the best first, and whether everything that matches was compared."""

    def __init__(self, reply: Reply) -> None:
        answer = Record(reply.body, reply)
        super().__init__((MemoryHit(item) for item in elements(answer.raw("items").data)), reply)
        self.space: str = answer["space"]
        self.mode: str = answer["mode"]
        self.exact: bool = answer["exact"]


class MemorySearch(TypedDict, total=False):
    """What to look for: a query, an embedding, or both; and what it must be besides."""

    query: str
    embedding: Sequence[float]
    space: str
    kind: Literal["document", "record"]
    filter: Mapping[str, Any]
    session_id: str
    invocation_id: str
    top_k: int
    mode: Literal["vector", "text", "hybrid"]
    explain: bool


class Memory(Resource[M]):
    """What agents remember, found again."""

    @endpoint
    def search(self, **asked: Unpack[MemorySearch]) -> Call[MemoryFound]:
        """What is nearest, the best first: by meaning, by words, or by both."""
        return Call("POST", "/v1/memory/search", MemoryFound, body=dump(asked), repeatable=True)
