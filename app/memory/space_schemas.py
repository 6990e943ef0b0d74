"""Spaces of embeddings, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from app.http.fields import Body, Text
from app.http.paging import ListQuery, PageOf
from app.memory.partitions import DIMENSIONS_MAX

Metric = Literal["cosine", "l2", "inner_product"]


def _dimensions(value: int) -> int:
    if not 1 <= value <= DIMENSIONS_MAX:
        raise ValueError(f"must be from 1 to {DIMENSIONS_MAX}, which is what an index can hold at half precision")
    return value


Dimensions = Annotated[
    int,
    AfterValidator(_dimensions),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": DIMENSIONS_MAX}),
]


class NewSpace(Body):
    """A space of embeddings, which keeps these."""

    model: Annotated[Text, Field(min_length=1, max_length=1000)] = Field(
        description="What the embedding service is asked for.", examples=["text-embedding-3-small"]
    )
    dimensions: Dimensions = Field(examples=[1536])
    metric: Metric = "cosine"
    language: Annotated[Text, Field(min_length=1, max_length=63)] = Field(
        "simple", description="A text search configuration of PostgreSQL.", examples=["english"]
    )


class Activation(Body):
    """How a space is activated."""

    allow_incomplete: bool = Field(False, description="Also where items have no embedding in it.")


class SpaceList(ListQuery):
    """The list of spaces, by name."""

    sort: Literal["name", "created_at"] | None = None


class SpaceIndex(BaseModel):
    """The index of a space's nearest neighbours; without one every vector is compared."""

    state: Literal["none", "building", "ready", "broken"] = Field(
        description="`none` while there are few vectors, `broken` where a build did not come to its end; it is begun"
        " again by itself."
    )
    progress: float | None = Field(description="How much of a build under way is done, from 0 to 1.")
    rows: int = Field(description="How many rows the space has; an estimate of PostgreSQL.")
    size_bytes: int


class Space(BaseModel):
    """A space of embeddings of one model. One is active; those that are filling are written to as well."""

    name: str
    model: str
    dimensions: int
    metric: Metric
    language: str
    active: bool
    filling: bool
    created_at: datetime
    updated_at: datetime
    activated_at: datetime | None
    index: SpaceIndex


class SpacePage(PageOf[Space]):
    """A page of spaces."""
