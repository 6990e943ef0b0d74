"""Artifacts, as query parameters and JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import Instant, Query
from app.http.paging import ListQuery, PageOf

EXAMPLE = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=[EXAMPLE])]


class NewArtifact(Query):
    """What the bytes must be."""

    hash: Hash | None = Field(
        None, description="SHA-256 of the bytes, in lowercase hexadecimal digits; others are refused."
    )


class ArtifactList(ListQuery):
    """Filters of the list of artifacts."""

    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at"] | None = None


class Artifact(BaseModel):
    """Bytes that never change, named by their SHA-256."""

    hash: str
    size_bytes: int
    created_at: datetime


class ArtifactPage(PageOf[Artifact]):
    """A page of artifacts, without their bytes."""
