"""Calls about documents: JSON of any shape in collections, exactly as it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging, Payload
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import Json, decode_exactly, dump, members
from app.client.operations import Job
from app.client.record import Record
from app.client.reply import Reply

M = TypeVar("M")
ACCEPTED = 202
ONLY_NEW = (("If-None-Match", "*"),)


class Document(Record):
    """A document; its `body` only where it was asked for."""

    collection: str
    id: str
    revision: int
    indexed: bool
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    body: Json | None


class DocumentRevision(Record):
    """An earlier revision of a document; its `body` only where it was asked for."""

    revision: int
    stored_at: datetime
    body: Json | None


class Collection(Record):
    """The rules of a collection, and how many documents it has."""

    name: str
    secret_paths: list[str]
    history: int
    cutting: bool
    document_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class StoredDocument:
    """The body of a document: `body.data` is its exact text, `body.value()` what it says. `etag` is its revision."""

    body: Json
    etag: str


class CollectionFields(TypedDict, total=False):
    """The rules of a collection; one that is left out stays as it is."""

    secret_paths: Sequence[str]
    history: int


class DocumentConditions(TypedDict, total=False):
    """What documents must meet, all of it; how they are ordered, and what of them is shown.

    `contains` is JSON that the body contains. `among` has, by member of the top or JSON Pointer, values of which one
    must stand there.
    """

    contains: Payload
    among: Mapping[str, Sequence[Any]]
    sort: Literal["position", "updated_at", "created_at"]
    order: Literal["asc", "desc"]
    limit: int
    cursor: str
    include: Sequence[Literal["body"]]


@dataclass(frozen=True)
class _Query(Call[Page[Document]]):
    """A list that is asked for with a body, its cursor too."""

    asked: Mapping[str, Any] = field(default_factory=dict)

    def at_cursor(self, cursor: str) -> _Query:
        """The same conditions for the page that a cursor leads to."""
        asked = {**self.asked, "cursor": cursor}
        return replace(self, asked=asked, body=dump(asked))


class Documents(Resource[M]):
    """Documents in collections. `using(if_match=…)` holds for their writes."""

    @endpoint
    def put(
        self,
        collection: str,
        document_id: str,
        body: Payload,
        *,
        expires_at: Instant | None = None,
        only_new: bool = False,
        include: Sequence[str] = (),
    ) -> Call[Document]:
        """Store a body; it replaces the one before, and when it ends. With `only_new` nothing may be there yet."""
        asked = query({"expires_at": expires_at, "include": include})
        target, headers = path("documents", collection, document_id), ONLY_NEW if only_new else ()
        return Call("PUT", target, one(Document), asked, dump(body), headers=headers)

    @endpoint
    def patch(
        self,
        collection: str,
        document_id: str,
        body: Payload,
        *,
        merge: Literal["shallow", "rfc7396"] = "rfc7396",
        expires_at: Instant | None = None,
        only_new: bool = False,
        include: Sequence[str] = (),
    ) -> Call[Document]:
        """Merge members into a document, or make it; what others merge at the same time is not lost."""
        asked = query({"merge": merge, "expires_at": expires_at, "include": include})
        target, headers = path("documents", collection, document_id), ONLY_NEW if only_new else ()
        return Call("PATCH", target, one(Document), asked, dump(body), headers=headers)

    @endpoint
    def get(self, collection: str, document_id: str) -> Call[StoredDocument]:
        """The body of a document, exactly as it is stored."""
        return Call("GET", path("documents", collection, document_id), _stored)

    @endpoint
    def delete(self, collection: str, document_id: str) -> Call[None]:
        """Delete a document with its revisions."""
        return Call("DELETE", path("documents", collection, document_id), nothing)

    @listing
    def revisions(self, collection: str, document_id: str, **paging: Unpack[Paging]) -> Call[Page[DocumentRevision]]:
        """The earlier revisions that are kept, the newest first."""
        target = path("documents", collection, document_id, "revisions")
        return Call("GET", target, page_of(DocumentRevision), query(paging))

    @listing
    def query(self, collection: str, **conditions: Unpack[DocumentConditions]) -> Call[Page[Document]]:
        """Documents that meet every condition, in the order in which they were first stored."""
        asked = {"in" if name == "among" else name: given for name, given in conditions.items()}
        target = path("documents", collection, "query")
        return _Query("POST", target, page_of(Document), body=dump(asked), repeatable=True, asked=asked)

    @listing
    def collections(self, **paging: Unpack[Paging]) -> Call[Page[Collection]]:
        """The collections by name, each with how many documents it has."""
        return Call("GET", path("documents"), page_of(Collection), query(paging))

    @endpoint
    def collection(self, name: str) -> Call[Collection]:
        """The rules of a collection, and how many documents it has."""
        return Call("GET", path("documents", name), one(Collection))

    @endpoint
    def put_collection(self, name: str, **rules: Unpack[CollectionFields]) -> Call[Collection | Job]:
        """Make a collection, or change its rules. A `Job` cuts what a new secret path names where that is much."""
        return Call("PUT", path("documents", name), _collection, body=dump(rules))

    @endpoint
    def delete_collection(self, name: str) -> Call[int]:
        """Delete a collection with its documents; how many there were."""
        return Call("DELETE", path("documents", name), _deleted)


def _stored(reply: Reply) -> StoredDocument:
    return StoredDocument(Json(reply.body), reply.etag or "")


def _collection(reply: Reply) -> Collection | Job:
    return Job(reply.body, reply) if reply.status == ACCEPTED else Collection(reply.body, reply)


def _deleted(reply: Reply) -> int:
    return int(decode_exactly(members(reply.body)["deleted"]))
