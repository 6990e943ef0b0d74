"""Calls about memory: spaces of embeddings, and what is remembered in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Required, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging
from app.client.call import Call, Items, Page, items_of, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.operations import Job
from app.client.record import Record

M = TypeVar("M")


class MemorySpace(Record):
    """A space of embeddings of one model; searches use the active one unless they name another."""

    name: str
    model: str
    dimensions: int
    metric: str
    language: str
    active: bool
    filling: bool
    created_at: datetime
    updated_at: datetime
    activated_at: datetime | None
    index: dict[str, Any]


class MemorySpaceFields(TypedDict, total=False):
    """What a space keeps."""

    model: Required[str]
    dimensions: Required[int]
    metric: Literal["cosine", "l2", "inner_product"]
    language: str


class MemorySpaces(Resource[M]):
    """Spaces of embeddings, side by side; the first one is active at once."""

    @endpoint
    def put(self, name: str, **fields: Unpack[MemorySpaceFields]) -> Call[MemorySpace]:
        """Make a space; with other fields than it has, `ConflictError` with `memory_space_conflict`."""
        return Call("PUT", path("memory", "spaces", name), one(MemorySpace), body=dump(fields))

    @endpoint
    def get(self, name: str) -> Call[MemorySpace]:
        """One space."""
        return Call("GET", path("memory", "spaces", name), one(MemorySpace))

    @listing
    def list(self, **filters: Unpack[Paging]) -> Call[Page[MemorySpace]]:
        """The spaces by name."""
        return Call("GET", path("memory", "spaces"), page_of(MemorySpace), query(filters))

    @endpoint
    def activate(self, name: str, *, allow_incomplete: bool = False) -> Call[MemorySpace]:
        """Let searches use this space from now on; the one before goes on being written to."""
        body = dump({"allow_incomplete": allow_incomplete})
        return Call("POST", path("memory", "spaces", name, "activate"), one(MemorySpace), body=body)

    @endpoint
    def reembed(self, name: str) -> Call[Job]:
        """Embed what has no embedding in the space, as a job; what is written from now on is embedded for it too."""
        return Call("POST", path("memory", "spaces", name, "reembed"), one(Job))

    @endpoint
    def reindex(self, name: str) -> Call[MemorySpace]:
        """Have the space's index built anew; `index["state"]` is `building` until that is done."""
        return Call("POST", path("memory", "spaces", name, "reindex"), one(MemorySpace))

    @endpoint
    def delete(self, name: str) -> Call[None]:
        """Delete a space that is not active, with its embeddings."""
        return Call("DELETE", path("memory", "spaces", name), nothing)


class MemoryItem(Record):
    """A document or record. `embedded`: whether it has an embedding in the active space; lists leave it out.

    An answer to many has its `status` in each: 201, 200, or that of a problem, with `code`, `detail` and facts.
    """

    id: str
    kind: str
    content: str
    metadata: dict[str, Any]
    session_id: str | None
    invocation_id: str | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    embedded: bool
    embedding: list[float] | None
    status: int
    code: str
    detail: str


class MemoryItemAbout(TypedDict, total=False):
    """What belongs to a content. `embedding` is of `space`, of the active one unless that is given."""

    metadata: Mapping[str, Any] | None
    session_id: str | None
    invocation_id: str | None
    expires_at: Instant | None
    embedding: Sequence[float]
    space: str


class MemoryItemChange(MemoryItemAbout, total=False):
    """What may be changed of an item."""

    content: str


class MemoryItemFields(MemoryItemAbout, total=False):
    """An item to remember."""

    id: str
    content: Required[str]


class MemoryItemFilter(Paging, total=False):
    """Which items to list."""

    session_id: str
    invocation_id: str
    metadata: Mapping[str, Any]
    created_after: Instant
    created_before: Instant


class MemoryItems(Resource[M]):
    """Items of one kind."""

    kind: ClassVar[str]

    @endpoint
    def create(self, **fields: Unpack[MemoryItemFields]) -> Call[MemoryItem]:
        """Remember an item; without an id the service makes one."""
        return Call("POST", path("memory", self.kind), one(MemoryItem), body=dump(fields))

    @endpoint
    def create_many(self, items: Sequence[MemoryItemFields]) -> Call[Items[MemoryItem]]:
        """Remember items, each by itself: look at the `status` of each, one that is refused raises nothing."""
        body = dump({"items": [*items]})
        return Call("POST", path("memory", self.kind), items_of(MemoryItem), body=body)

    @endpoint
    def get(self, item_id: str, *, include: Sequence[str] = ()) -> Call[MemoryItem]:
        """One item; `include=["embedding"]` shows its numbers in the active space."""
        return Call("GET", path("memory", self.kind, item_id), one(MemoryItem), query({"include": include}))

    @listing
    def list(self, **filters: Unpack[MemoryItemFilter]) -> Call[Page[MemoryItem]]:
        """Items, the newest first."""
        return Call("GET", path("memory", self.kind), page_of(MemoryItem), query(filters))

    @endpoint
    def patch(self, item_id: str, **fields: Unpack[MemoryItemChange]) -> Call[MemoryItem]:
        """Change the fields given; content that changes is embedded anew, or has no embedding any more."""
        return Call("PATCH", path("memory", self.kind, item_id), one(MemoryItem), body=dump(fields))

    @endpoint
    def delete(self, item_id: str) -> Call[None]:
        """Forget an item, in every space."""
        return Call("DELETE", path("memory", self.kind, item_id), nothing)


class MemoryDocuments(MemoryItems[M]):
    """Documents: what is known."""

    kind = "documents"


class MemoryRecords(MemoryItems[M]):
    """Records: what has happened."""

    kind = "records"
