"""What people ask of a run, over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from app.db.database import Answer
from app.evolution import picture, reads, store
from app.evolution.errors import EvolutionRunNotFound
from app.evolution.listing import CONFIGURATIONS
from app.evolution.read_schemas import (
    Best,
    BestQuery,
    Graph,
    GraphQuery,
    Progress,
    ProgressQuery,
    RunVersionList,
    RunVersionPage,
)
from app.http import drawing
from app.http.call import Call
from app.http.drawing import PictureTooLarge
from app.http.endpoint import Routes
from app.http.paging import page
from app.versions.store import VERSIONS

routes = Routes("evolution")


@routes.get(
    "/v1/evolution-runs/{run_id}/progress",
    scope="evolution:read",
    response_model=Progress,
    errors=(EvolutionRunNotFound, PictureTooLarge),
    responses=drawing.documented("Progress of evolution run run_1"),
)
async def get_evolution_run_progress(call: Call, run_id: str, query: ProgressQuery) -> Answer | Response:
    """Best, average and worst fitness, accuracy and cost of each generation, by number.

    `Accept: image/svg+xml` draws them, for up to 2,000 generations, as a chart over the generations.
    """
    answer = await reads.progress(call.reader, call.tenant_id, run_id, limit=query.limit, from_number=query.from_number)
    return await drawing.shown(call, answer, picture.chart)


@routes.get(
    "/v1/evolution-runs/{run_id}/best",
    scope="evolution:read",
    response_model=Best,
    errors=(EvolutionRunNotFound,),
)
async def get_best_of_evolution_run(call: Call, run_id: str, query: BestQuery) -> Answer:
    """The `n` best invocations of the run, each with its version; or, with `per=version`, the best of each version."""
    each_version = query.per == "version"
    return await reads.best(call.reader, call.tenant_id, run_id, n=query.n, each_version=each_version)


@routes.get(
    "/v1/evolution-runs/{run_id}/graph",
    scope="evolution:read",
    response_model=Graph,
    errors=(EvolutionRunNotFound, PictureTooLarge),
    responses=drawing.documented("Graph of evolution run run_1"),
)
async def get_evolution_run_graph(call: Call, run_id: str, query: GraphQuery) -> Answer | Response:
    """The run's versions and invocations as nodes, and what descends from what as edges.

    They come in the order of their generations, at most `limit` of each kind; `more` says whether that was all, and
    `from_number` and `to_number` choose generations. An edge is shown where both its ends are.

    `Accept: image/svg+xml` draws it, for up to 1,000 versions: one column for each generation, an edge from parent to
    child, invocations told with the version that they ran.
    """
    answer = await reads.graph(
        call.reader,
        call.tenant_id,
        run_id,
        limit=query.limit,
        from_number=query.from_number,
        to_number=query.to_number,
    )
    return await drawing.shown(call, answer, picture.graph)


@routes.get(
    "/v1/evolution-runs/{run_id}/versions",
    scope="evolution:read",
    response_model=RunVersionPage,
    errors=(EvolutionRunNotFound,),
)
async def list_evolution_run_versions(call: Call, run_id: str, query: RunVersionList) -> Answer:
    """The versions that were made in the run's generations, the newest first, as `GET /v1/versions?run_id=` lists them.

    With `group_by=dsl_hash`, the configurations that its generations saw: each once, with the first and the last
    generation that saw it, counts, cost and best fitness.
    """
    return await page(
        call,
        VERSIONS if query.group_by is None else CONFIGURATIONS,
        query,
        {"run_id": run_id},
        if_empty=lambda: store.require(call.reader, call.tenant_id, run_id),
    )
