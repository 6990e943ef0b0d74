"""Calls about memory: spaces of embeddings, and what is remembered in them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
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
    def delete(self, name: str) -> Call[None]:
        """Delete a space that is not active, with its embeddings."""
        return Call("DELETE", path("memory", "spaces", name), nothing)
