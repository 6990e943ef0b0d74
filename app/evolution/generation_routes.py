"""Generations and their members over HTTP."""

from __future__ import annotations

import re

from app.db.database import Answer
from app.errors import invalid
from app.evolution import generation_store, store
from app.evolution.errors import (
    EvolutionRunEnded,
    EvolutionRunNotFound,
    GenerationCompleted,
    GenerationConflict,
    NoCompletedGeneration,
)
from app.evolution.generation_schemas import (
    CompleteGeneration,
    Generation,
    GenerationList,
    GenerationNotes,
    GenerationPage,
    GenerationSeen,
    LastCompleted,
    Members,
    NewGeneration,
    NewMembers,
    ResumeQuery,
)
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.fields import INTEGER_MAX
from app.http.paging import page
from app.versions.errors import GenerationNotFound, VersionNotFound

routes = Routes("evolution")
_NUMBER = re.compile("0|[1-9][0-9]{0,15}").fullmatch


@routes.post(
    "/v1/evolution-runs/{run_id}/generations",
    scope="evolution:write",
    response_model=Generation,
    status_code=201,
    transactional=True,
    errors=(EvolutionRunNotFound, EvolutionRunEnded, GenerationConflict),
)
async def create_generation(call: Call, run_id: str, body: NewGeneration) -> Answer:
    """Open a generation of a running run; without `number` it gets the next one, from 0.

    The same number with the same fields answers 200 with the generation as it now is, whatever happened to it since.
    """
    return await generation_store.create(call.writer, call.tenant_id, run_id, body.given())


@routes.get(
    "/v1/evolution-runs/{run_id}/generations",
    scope="evolution:read",
    response_model=GenerationPage,
    errors=(EvolutionRunNotFound,),
)
async def list_generations(call: Call, run_id: str, query: GenerationList) -> Answer:
    """The generations of a run by number, with their members counted, their scores' range and their invocations."""
    return await page(
        call,
        generation_store.GENERATIONS,
        query,
        {**query.filters(), "run_id": run_id},
        if_empty=lambda: store.require(call.reader, call.tenant_id, run_id),
    )


@routes.get(
    "/v1/evolution-runs/{run_id}/generations/by-number/{number}",
    scope="evolution:read",
    response_model=GenerationSeen,
    errors=(EvolutionRunNotFound, GenerationNotFound),
)
async def get_generation_by_number(call: Call, run_id: str, number: str) -> Answer:
    """The generation of this number, 0 too."""
    if not _NUMBER(number) or int(number) > INTEGER_MAX:
        raise invalid("number", "must be an integer from 0 to 9007199254740991")
    return await generation_store.get_by_number(call.reader, call.tenant_id, run_id, int(number))


@routes.get(
    "/v1/evolution-runs/{run_id}/generations/last-completed",
    scope="evolution:read",
    response_model=LastCompleted,
    errors=(EvolutionRunNotFound, NoCompletedGeneration),
)
async def get_last_completed_generation(call: Call, run_id: str, query: ResumeQuery) -> Answer:
    """What a run needs to resume, in one read.

    The completed generation of the greatest number (0 counts) with its members and its statistics, and, unless
    `include=` leaves it out, the run's checkpoint byte for byte.
    """
    wanted = query.include is None or query.include == "checkpoint"
    return await generation_store.last_completed(call.reader, call.tenant_id, run_id, checkpoint=wanted)


@routes.get(
    "/v1/generations/{generation_id}",
    scope="evolution:read",
    response_model=GenerationSeen,
    errors=(GenerationNotFound,),
)
async def get_generation(call: Call, generation_id: str) -> Answer:
    """A generation, with what is derived from its members and invocations."""
    return await generation_store.get(call.reader, call.tenant_id, generation_id)


@routes.patch(
    "/v1/generations/{generation_id}",
    scope="evolution:write",
    response_model=Generation,
    errors=(GenerationNotFound,),
)
async def patch_generation(call: Call, generation_id: str, body: GenerationNotes) -> Answer:
    """Update comment and feedback where given, also after the completion."""
    return await generation_store.patch(call.writer, call.tenant_id, generation_id, body.given(), call.if_match)


@routes.post(
    "/v1/generations/{generation_id}/complete",
    scope="evolution:write",
    response_model=Generation,
    errors=(GenerationNotFound, GenerationCompleted, VersionNotFound),
)
async def complete_generation(call: Call, generation_id: str, body: CompleteGeneration) -> Answer:
    """Complete a generation with its best version and its statistics; no version is touched.

    The first completion stays: repeating it exactly answers 200, another one is 409.
    """
    return await generation_store.complete(call.writer, call.tenant_id, generation_id, body.given(), call.if_match)


@routes.put(
    "/v1/generations/{generation_id}/members",
    scope="evolution:write",
    response_model=Members,
    transactional=True,
    errors=(GenerationNotFound, VersionNotFound),
)
async def put_generation_members(call: Call, generation_id: str, body: NewMembers) -> Answer:
    """Say who was in the generation; it replaces what was said before. A version may be in many generations.

    The ETag is that of the generation; the members that it has already leave it as it is.
    """
    members = [member.given() for member in body.items]
    return await generation_store.put_members(call.writer, call.tenant_id, generation_id, members, call.if_match)


@routes.get(
    "/v1/generations/{generation_id}/members",
    scope="evolution:read",
    response_model=Members,
    errors=(GenerationNotFound,),
)
async def get_generation_members(call: Call, generation_id: str) -> Answer:
    """Everybody who was in the generation, at most 10,000, by rank, then by fitness."""
    return await generation_store.members(call.reader, call.tenant_id, generation_id)
