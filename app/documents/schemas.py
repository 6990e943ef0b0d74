"""Documents and their collections, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.documents.secrecy import PATHS_MAX, segments
from app.http.fields import Body, Instant, JsonObject, JsonValue, Text
from app.http.paging import LIMIT, IncludeQuery, IncludingListQuery, ListQuery, PageOf

HISTORY_MAX = 1000
POINTER = r"^(/([^/~\x00]|~[01])*)+$"
INCLUDE_BODY = "`body` shows the bodies, byte for byte."


def _pointer(value: str) -> str:
    segments(value)
    return value


Pointer = Annotated[
    Text,
    # The pattern is shown, and `segments` says in words what does not meet it.
    Field(min_length=1, max_length=1024, json_schema_extra={"pattern": POINTER}, examples=["/account/api_key"]),
    AfterValidator(_pointer),
]


class CollectionRules(Body):
    """The rules of a collection; what is not given stays as it is."""

    secret_paths: list[Pointer] = Field(
        [],
        max_length=PATHS_MAX,
        description="JSON Pointers, `*` for every member or element: what lies there is cut before anything is kept.",
        examples=[["/account/api_key", "/tools/*/env"]],
    )
    history: int = Field(0, ge=0, le=HISTORY_MAX, description="How many earlier revisions of each document are kept.")


class PutQuery(IncludeQuery):
    """When the document ends, and what the answer shows."""

    expires_at: Instant | None = Field(None, description="From then on the document is gone; never unless given.")


class PatchQuery(IncludeQuery):
    """How the body is merged, when the document ends, and what the answer shows."""

    merge: Literal["shallow", "rfc7396"] = Field(
        "rfc7396",
        description="`shallow` puts the members of the top, nulls too; `rfc7396` goes into objects, null removes.",
    )
    expires_at: Instant | None = Field(None, description="From then on the document is gone; stays unless given.")


class RevisionList(IncludingListQuery):
    """How the list of revisions is paged."""

    sort: Literal["revision"] | None = None


class CollectionList(ListQuery):
    """How the list of collections is paged."""

    sort: Literal["name"] | None = None


class DocumentQuery(Body):
    """What to find in a collection: every condition must hold. Without one, everything."""

    contains: JsonValue | None = Field(
        None, description="JSON that the body contains, as `jsonb` does.", examples=[{"job": {"kind": "x"}}]
    )
    in_: JsonObject | None = Field(
        None,
        alias="in",
        description="For each member of the top, or JSON Pointer: values, one of which stands there.",
        examples=[{"status": ["running", "awaiting"], "/job/id": ["j1"]}],
    )
    sort: Literal["position", "updated_at", "created_at"] | None = Field(
        None, description="`position`, the order in which they were first stored, unless given."
    )
    order: Literal["asc", "desc"] | None = None
    limit: Annotated[int, LIMIT] | None = None
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    include: list[Literal["body"]] | None = Field(None, description=INCLUDE_BODY)


class Document(BaseModel):
    """A document, without its body unless that is asked for."""

    collection: str
    id: str
    revision: int
    indexed: bool = Field(description="Whether queries look in it: false where `jsonb` cannot hold the body.")
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    body: Any = None


class DocumentPage(PageOf[Document]):
    """A page of documents."""


class Revision(BaseModel):
    """An earlier revision of a document."""

    revision: int
    stored_at: datetime
    body: Any = None


class RevisionPage(PageOf[Revision]):
    """A page of earlier revisions."""


class Collection(BaseModel):
    """A collection: its rules, and how many documents it has."""

    name: str
    secret_paths: list[str]
    history: int
    cutting: bool = Field(description="Whether a job still cuts what was stored before a secret path was named.")
    document_count: int
    created_at: datetime
    updated_at: datetime


class CollectionPage(PageOf[Collection]):
    """A page of collections."""


class Deleted(BaseModel):
    """How many documents went with their collection."""

    deleted: int
