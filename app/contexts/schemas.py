"""Contexts, as query parameters and JSON."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.errors import MalformedRequest
from app.http.cutting import read_payload
from app.http.fields import ID_BYTES_MAX, PATH_WORDS, Body, Id, Instant, JsonObject, Query, within
from app.http.paging import ListQuery, PageOf
from app.http.verbatim import STRINGS

# Both are told in headers too, percent-encoded, and clients bound how much of those they read.
SUMMARY_BYTES_MAX, METADATA_BYTES_MAX = 2048, 4096

_EXPONENT = re.compile(rb"[0-9][eE][+-]?([0-9]+)")

Part = Annotated[str, Field(min_length=1, max_length=ID_BYTES_MAX, pattern=r"^[^\x00]+$"), within(ID_BYTES_MAX)]
Pattern = Annotated[str, Field(max_length=ID_BYTES_MAX, pattern=r"^[^\x00]*$"), within(ID_BYTES_MAX)]
Node = Annotated[str, Field(max_length=ID_BYTES_MAX, pattern=r"^[^\x00]*$"), within(ID_BYTES_MAX)]
PATTERN = Field(
    None,
    description="Keys that match: `*` stands for any characters, `?` for one; everything else for itself.",
    examples=["plan/*"],
)


def _object(value: str) -> str:
    try:
        checked = JsonObject.checked(read_payload(value.encode()))
    except (MalformedRequest, ValueError):
        raise ValueError("must be a JSON object that jsonb can hold") from None
    # It is shown with every digit of its numbers.
    if len(checked) + sum(map(int, _EXPONENT.findall(STRINGS.sub(b'""', checked)))) > METADATA_BYTES_MAX:
        raise ValueError(f"must be at most {METADATA_BYTES_MAX} bytes with its numbers written out")
    return value


def _key(value: str) -> str:
    if value in PATH_WORDS:
        raise ValueError(f"must not be the word {value!r}")
    return value


Key = Annotated[Part, AfterValidator(_key)]
MetadataText = Annotated[str, Field(max_length=METADATA_BYTES_MAX), within(METADATA_BYTES_MAX), AfterValidator(_object)]


class ContextQuery(Query):
    """Of which node the context is."""

    node_id: Node = Field("", description="The node that the context belongs to; without it, it belongs to none.")


class NewContext(ContextQuery):
    """What is kept beside the bytes. All of it is replaced together with them."""

    summary: (
        Annotated[str, Field(max_length=SUMMARY_BYTES_MAX, pattern=r"^[^\x00]*$"), within(SUMMARY_BYTES_MAX)] | None
    ) = Field(
        None, description="What the bytes are about; without it the service makes an excerpt.", examples=["The plan."]
    )
    metadata: MetadataText | None = Field(None, description="A JSON object, as text.", examples=['{"tags":["plan"]}'])
    expires_at: Instant | None = Field(None, description="From then on the context is gone.")


class ContextList(ListQuery):
    """Which contexts of the invocation to list, by scope, node and key."""

    scope: Part | None = None
    node_id: Node | None = Field(None, description="Those of one node; empty for those that belong to none.")
    pattern: Pattern | None = PATTERN
    sort: Literal["key"] | None = None


class Place(Body):
    """A context of this invocation."""

    scope: Id = Field(examples=["workflow"])
    node_id: Part | None = Field(None, description="The node that it belongs to; null for none.")
    key: Key = Field(examples=["plan"])


class Target(Body):
    """Where the context goes; what is not given is as at the source."""

    invocation_id: Id | None = Field(None, description="Another invocation of the tenant.")
    scope: Id | None = None
    node_id: Part | None = Field(None, description="The node that it then belongs to; null for none.")
    key: Key | None = Field(None, examples=["plan/old"])


class Transfer(Body):
    """What is copied or moved, and where to."""

    source: Place
    target: Target
    overwrite: bool = Field(False, description="Replace what is at the target; otherwise that is 409.")


class Clearing(Body):
    """Which contexts of the invocation to remove: those that meet every condition, without any all of them."""

    scope: Part | None = None
    node_id: Id | None = Field(None, description="Those of one node; null for those that belong to none.")
    pattern: Pattern | None = PATTERN


class Context(BaseModel):
    """What is known of a context besides its bytes."""

    invocation_id: str
    scope: str
    node_id: str | None
    key: str
    summary: str
    summary_given: bool
    metadata: dict[str, Any]
    content_type: str
    size_bytes: int
    digest: str
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ContextPage(PageOf[Context]):
    """A page of contexts, without their bytes."""


class Cleared(BaseModel):
    """How many contexts were removed."""

    deleted: int
