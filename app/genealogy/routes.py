"""Genealogy over HTTP."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from app.db.database import Answer
from app.genealogy import picture, store
from app.genealogy.errors import DifferenceTooLarge, WalkTooLong
from app.genealogy.listing import ANCESTORS, COMMON_ANCESTORS, DESCENDANTS, Walk
from app.genealogy.schemas import (
    CommonAncestorPage,
    CommonAncestorsList,
    Difference,
    Genealogy,
    GenealogyQuery,
    RelativePage,
    RelativesList,
)
from app.http import drawing
from app.http.call import Call
from app.http.drawing import PictureTooLarge
from app.http.endpoint import Routes
from app.http.paging import page
from app.versions import store as versions
from app.versions.errors import VersionNotFound, VersionPruned
from app.workflows.errors import WorkflowNotFound

routes = Routes("genealogy")


async def _relatives(call: Call, walk: Walk, version_id: str, query: RelativesList) -> Answer:
    return await page(
        call,
        walk,
        query,
        {"version_id": version_id, "max_depth": query.max_depth},
        if_empty=lambda: versions.require(call.reader, call.tenant_id, version_id),
    )


@routes.get(
    "/v1/versions/{version_id}/ancestors",
    scope="versions:read",
    response_model=RelativePage,
    errors=(VersionNotFound, WalkTooLong),
)
async def list_ancestors(call: Call, version_id: str, query: RelativesList) -> Answer:
    """The versions that this one descends from, the nearest first, each once at its smallest depth.

    A version is not its own ancestor, even where imported parents lead in a circle.
    """
    return await _relatives(call, ANCESTORS, version_id, query)


@routes.get(
    "/v1/versions/{version_id}/descendants",
    scope="versions:read",
    response_model=RelativePage,
    errors=(VersionNotFound, WalkTooLong),
)
async def list_descendants(call: Call, version_id: str, query: RelativesList) -> Answer:
    """The versions that descend from this one, the nearest first, each once at its smallest depth.

    A version is not its own descendant, even where imported parents lead in a circle.
    """
    return await _relatives(call, DESCENDANTS, version_id, query)


@routes.get(
    "/v1/versions/{version_id}/common-ancestors/{other_id}",
    scope="versions:read",
    response_model=CommonAncestorPage,
    errors=(VersionNotFound, WalkTooLong),
)
async def list_common_ancestors(call: Call, version_id: str, other_id: str, query: CommonAncestorsList) -> Answer:
    """The versions that both descend from, the nearest first: by the sum of both depths, then by id.

    A version counts as its own ancestor at depth 0, so the nearest one of a parent and its child is the parent.
    """

    async def require_both() -> None:
        for one in (version_id, other_id):
            await versions.require(call.reader, call.tenant_id, one)

    given = {"version_id": version_id, "other_id": other_id, "max_depth": query.max_depth}
    return await page(call, COMMON_ANCESTORS, query, given, if_empty=require_both)


@routes.get(
    "/v1/versions/{version_id}/diff/{other_id}",
    scope="versions:read",
    response_model=Difference,
    errors=(VersionNotFound, VersionPruned, DifferenceTooLarge),
)
async def get_difference(call: Call, version_id: str, other_id: str) -> Answer:
    """The JSON Patch (RFC 6902) that makes the DSL of the first version that of the second.

    Numbers are compared and kept as they are written, so 1 and 1.0 differ. The patch adds, removes and replaces; it
    never moves.
    """
    return await store.compared(call.reader, call.tenant_id, version_id, other_id, call.ground.comparing)


@routes.get(
    "/v1/workflows/{workflow_id}/genealogy",
    scope="versions:read",
    response_model=Genealogy,
    errors=(WorkflowNotFound, PictureTooLarge),
    responses=drawing.documented("Genealogy of workflow wf_1"),
)
async def get_genealogy(call: Call, workflow_id: str, query: GenealogyQuery) -> Answer | Response:
    """The newest versions of a workflow with all their parents, as the nodes and edges of a graph.

    Parents that are not among them stand at the end of the nodes; `outside` says that one belongs to another workflow.
    `more` says what is left out and how to go on: its cursor belongs to `GET /v1/workflows/{id}/versions`.

    `Accept: image/svg+xml` draws it, for up to 1,000 versions with parents: one column for each depth, an edge from
    parent to child.
    """
    answer = await store.graph(call.reader, call.tenant_id, workflow_id, query.limit)
    return await drawing.shown(call, answer, partial(picture.drawn, workflow_id))
