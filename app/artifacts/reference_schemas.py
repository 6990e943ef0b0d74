"""References to artifacts, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.artifacts.schemas import Hash
from app.http.fields import ID_BYTES_MAX, Body, Id, JsonObject, Text, within
from app.http.paging import ListQuery, PageOf

ContentType = Annotated[Text, Field(min_length=1, max_length=ID_BYTES_MAX), within(ID_BYTES_MAX)]


class ReferenceFields(Body):
    """Which artifact a name stands for, and what it is. What is not given is empty."""

    hash: Hash = Field(description="The artifact's SHA-256, in lowercase hexadecimal digits.")
    content_type: ContentType | None = Field(None, examples=["text/plain"])
    metadata: JsonObject | None = Field(None, examples=[{"made_by": "writer"}])
    node_id: Id | None = Field(None, examples=["writer"])


class ReferenceList(ListQuery):
    """Filters of the list of an invocation's artifacts."""

    node_id: str | None = None
    hash: Hash | None = None
    sort: Literal["name"] | None = None


class Reference(BaseModel):
    """A name under an invocation, and the artifact that it stands for."""

    invocation_id: str
    name: str
    hash: str
    size_bytes: int
    content_type: str | None
    metadata: dict[str, Any]
    node_id: str | None
    created_at: datetime
    updated_at: datetime


class ReferencePage(PageOf[Reference]):
    """A page of an invocation's artifacts."""
