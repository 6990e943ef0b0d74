"""Attachments, as query parameters and JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import ID_BYTES_MAX, Count, Name, Query, within
from app.http.paging import ListQuery, PageOf

FILE_NAME_BYTES_MAX = 2048

# In a query any text is an id: no word is a route beside it.
Identifier = Annotated[str, Field(min_length=1, max_length=ID_BYTES_MAX), within(ID_BYTES_MAX)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
PATH = Field(description="The path of the conversation's stream.", examples=["agents/echo/i1"])


class AttachmentQuery(Query):
    """Which attachment."""

    path: Name = PATH
    id: Identifier = Field(examples=["att_img_1"])
    conversation_id: Identifier = Field(examples=["conv_1"])


class NewAttachment(AttachmentQuery):
    """Which attachment the bytes are, and what they must be."""

    mime_type: Identifier = Field(examples=["text/plain"])
    size: Count = Field(description="How many bytes there are.", examples=[5])
    digest: Digest = Field(
        description="SHA-256 of the bytes, in lowercase hexadecimal digits.",
        examples=["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
    )
    filename: Annotated[str, Field(max_length=FILE_NAME_BYTES_MAX), within(FILE_NAME_BYTES_MAX)] | None = Field(
        None, description="What a download is called; not compared.", examples=["hello.txt"]
    )


class PathQuery(Query):
    """Which path."""

    path: Name = PATH


class AttachmentList(ListQuery):
    """Filters of the list of attachments."""

    path: Name | None = None
    conversation_id: str | None = None
    digest: str | None = None
    sort: Literal["created_at"] | None = None


class Attachment(BaseModel):
    """What the bytes are: an attachment's reference."""

    path: str
    id: str
    conversation_id: str
    mime_type: str
    size: int
    digest: str
    filename: str | None
    created_at: datetime


class AttachmentPage(PageOf[Attachment]):
    """A page of attachments, without their bytes."""


class Deleted(BaseModel):
    """How many attachments were deleted."""

    deleted: int
