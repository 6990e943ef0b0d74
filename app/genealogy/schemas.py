"""Genealogy, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.genealogy.errors import VISITED_MAX
from app.http.fields import Query
from app.http.paging import IncludingListQuery, PageOf
from app.versions.schemas import Version

NODES_MAX = 10_000
Depth = Annotated[
    int,
    Field(
        ge=1,
        le=VISITED_MAX,
        description="How many steps the walk takes from the version at most; to the end unless given.",
    ),
]


class RelativesList(IncludingListQuery):
    """How far a walk goes, and how what it finds is paged."""

    max_depth: Depth | None = None
    sort: Literal["depth"] | None = None


class CommonAncestorsList(IncludingListQuery):
    """How far both walks go, and how what they share is paged."""

    max_depth: Depth | None = None
    sort: Literal["distance"] | None = None


class Relative(Version):
    """A version, and the least number of steps to it."""

    depth: int


class RelativePage(PageOf[Relative]):
    """A page of ancestors or descendants, the nearest first."""


class CommonAncestor(Version):
    """A version that both descend from, and the least number of steps to it from each."""

    depth_a: int = Field(description="From the first version of the path; 0 where it is that version itself.")
    depth_b: int = Field(description="From the second version of the path; 0 where it is that version itself.")


class CommonAncestorPage(PageOf[CommonAncestor]):
    """A page of common ancestors; `distance`, the sum of both depths, orders them."""


class PatchOperation(BaseModel):
    """One operation of a JSON Patch."""

    op: Literal["add", "remove", "replace"]
    path: str
    value: Any = None


class Difference(BaseModel):
    """What makes the DSL of one version that of another."""

    from_: str = Field(alias="from")
    to: str
    patch: list[PatchOperation] = Field(description="A JSON Patch (RFC 6902).")


class GenealogyQuery(Query):
    """How much of a workflow's graph to show at once."""

    limit: Annotated[
        int, Field(ge=1, le=NODES_MAX, description="Most versions of the workflow, the newest; 10,000 at most.")
    ] = NODES_MAX


class GenealogyNode(Version):
    """A version of the workflow, or a parent of one."""

    outside: bool = Field(description="Whether it is a version of another workflow.")


class Edge(BaseModel):
    """That one version is a parent of another."""

    from_: str = Field(alias="from", description="The parent.")
    to: str = Field(description="The child.")
    kind: Literal["parent1", "parent2"]


class MoreVersions(BaseModel):
    """What a graph leaves out: null where it is whole."""

    versions: str | None = Field(description="The cursor with which `GET /v1/workflows/{id}/versions` goes on.")


class Genealogy(BaseModel):
    """The versions of a workflow with all their parents."""

    nodes: list[GenealogyNode]
    edges: list[Edge]
    more: MoreVersions
