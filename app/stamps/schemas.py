"""Format stamps, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.http.fields import Body, Id, Text
from app.http.paging import ListQuery, PageOf

ADOPTED_MAX, VALUES_MAX = 16, 64


def _name(value: str) -> str:
    if value == "open":
        raise ValueError("must not be the word 'open'")
    return value


# `open` is a route beside the names.
Name = Annotated[Id, AfterValidator(_name)]
Value = Annotated[Text, Field(min_length=1, max_length=1000)]
Values = Annotated[list[Value], Field(max_length=VALUES_MAX)]


class Opening(Body):
    """The format that the caller reads, and the older stamps that stand for data which it can read too."""

    name: Name = Field(examples=["format_version"])
    value: Value = Field(examples=["1"])
    adopt: Annotated[dict[Name, Values], Field(max_length=ADOPTED_MAX)] = Field(
        default_factory=dict,
        description="For each older name the values that stand for the same format.",
        examples=[{"schema_version": ["8"]}],
    )


class NewValue(Body):
    """The value of a stamp."""

    value: Value = Field(examples=["1"])


class StampList(ListQuery):
    """How the list of stamps is sorted."""

    sort: Literal["name"] | None = None


class Stamp(BaseModel):
    """What a client's data is written in: a value under a name."""

    name: str
    value: str
    created_at: datetime
    updated_at: datetime


class StampPage(PageOf[Stamp]):
    """A page of format stamps."""
