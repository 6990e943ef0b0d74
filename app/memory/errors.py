"""What can be wrong with memory."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class MemorySpaceNotFound(NotFound):
    """There is no such space for this tenant."""

    code, title = "memory_space_not_found", "There is no such space"


class MemorySpaceMissing(Conflict):
    """Nothing can be remembered or searched before there is a space: `PUT /v1/memory/spaces/{name}` makes one."""

    code, title = "memory_space_missing", "Memory has no space yet"


class MemorySpaceConflict(Conflict):
    """A space keeps its model, dimensions, metric and language; the facts say what they are. Others need another."""

    code, title = "memory_space_conflict", "The space has another model, size, metric or language"


class MemorySpacesFull(Conflict):
    """The tenant has as many spaces as it may; delete one that is not active first."""

    code, title = "memory_spaces_full", "The tenant has too many spaces"


class MemorySpaceActive(Conflict):
    """The active space cannot be deleted: activate another one first."""

    code, title = "memory_space_active", "The space is active"


class MemorySpaceIncomplete(Conflict):
    """Items have no embedding in the space yet; `missing` says how many. `reembed` makes them, or
    `{"allow_incomplete": true}` activates it all the same.
    """

    code, title = "memory_space_incomplete", "Not everything has an embedding in the space"


class MemoryItemNotFound(NotFound):
    """There is no such document or record for this tenant, or it has expired."""

    code, title = "memory_item_not_found", "There is no such item"


class MemoryItemConflict(Conflict):
    """The id belongs to an item that was created with other fields."""

    code, title = "memory_item_conflict", "The id belongs to another item"


class EmbeddingFaulty(Conflict):
    """The embedding service gave something for the content that is no embedding of the space; `reason` says what, and
    `expected` and `given` the sizes where they differ. The space's model is another one, or an operator has to look.
    """

    code, title = "embedding_faulty", "The embedding service gave no usable embedding"
