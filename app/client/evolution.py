"""Calls about evolution: runs, their generations, who was in each, and the checkpoint that an engine resumes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, Unpack

from app.client.bodies import Instant, Paging, Payload
from app.client.call import Call, Page, exact, items_of, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.evolution_bodies import (
    GenerationEnd,
    GenerationFields,
    GenerationNotes,
    MemberFields,
    RunFields,
    RunFilter,
    RunStart,
)
from app.client.evolution_models import (
    BestInvocation,
    Configuration,
    EvolutionRun,
    Generation,
    LastCompleted,
    Member,
    Progress,
)
from app.client.exact import Json, dump
from app.client.models import Version
from app.client.record import Record

M = TypeVar("M")


class EvolutionRuns(Resource[M]):
    """Searches over versions, in generations."""

    @endpoint
    def create(self, **fields: Unpack[RunStart]) -> Call[EvolutionRun]:
        """Start a run, and open a generation with it if one is given; the same again is a replay."""
        return Call("POST", path("evolution-runs"), one(EvolutionRun), body=dump(fields))

    @endpoint
    def get(self, run_id: str) -> Call[EvolutionRun]:
        """One run, with what is derived from its generations and invocations."""
        return Call("GET", path("evolution-runs", run_id), one(EvolutionRun))

    @listing
    def list(self, **filters: Unpack[RunFilter]) -> Call[Page[EvolutionRun]]:
        """Runs that meet every condition, with what is derived."""
        return Call("GET", path("evolution-runs"), page_of(EvolutionRun), query(filters))

    @endpoint
    def patch(self, run_id: str, **fields: Unpack[RunFields]) -> Call[EvolutionRun]:
        """Change the fields given."""
        return Call("PATCH", path("evolution-runs", run_id), one(EvolutionRun), body=dump(fields))

    @endpoint
    def complete(
        self,
        run_id: str,
        status: Literal["completed", "failed", "cancelled", "interrupted"],
        *,
        notes: str | None = None,
        ended_at: Instant | None = None,
    ) -> Call[EvolutionRun]:
        """End a run. The first end wins; exactly the same again is a replay."""
        given: dict[str, Any] = {"status": status, "notes": notes, "ended_at": ended_at}
        body = {name: value for name, value in given.items() if value is not None}
        return Call("POST", path("evolution-runs", run_id, "complete"), one(EvolutionRun), body=dump(body))

    @endpoint
    def reopen(self, run_id: str) -> Call[EvolutionRun]:
        """Take an ended run up again."""
        return Call("POST", path("evolution-runs", run_id, "reopen"), one(EvolutionRun))

    @endpoint
    def heartbeat(self, run_id: str) -> Call[EvolutionRun]:
        """Say that the engine lives; a `ConflictError` tells by `facts["current_status"]` that the run was ended."""
        return Call("POST", path("evolution-runs", run_id, "heartbeat"), one(EvolutionRun))

    @endpoint
    def progress(self, run_id: str, *, limit: int | None = None, from_number: int | None = None) -> Call[Progress]:
        """Fitness, accuracy and cost of each generation."""
        parameters = query({"limit": limit, "from_number": from_number})
        return Call("GET", path("evolution-runs", run_id, "progress"), one(Progress), parameters)

    @endpoint
    def best(
        self, run_id: str, n: int | None = None, *, per: Literal["invocation", "version"] | None = None
    ) -> Call[Sequence[BestInvocation]]:
        """The best invocations, each with its version; with `per="version"` the best of each version."""
        return Call(
            "GET", path("evolution-runs", run_id, "best"), items_of(BestInvocation), query({"n": n, "per": per})
        )

    @endpoint
    def graph(
        self,
        run_id: str,
        *,
        limit: int | None = None,
        from_number: int | None = None,
        to_number: int | None = None,
    ) -> Call[Record]:
        """Versions and invocations as `nodes`, and what descends from what as `edges`."""
        parameters = query({"limit": limit, "from_number": from_number, "to_number": to_number})
        return Call("GET", path("evolution-runs", run_id, "graph"), one(Record), parameters)

    @listing
    def versions(self, run_id: str, **paging: Unpack[Paging]) -> Call[Page[Version]]:
        """The versions that were made in the run's generations."""
        return Call("GET", path("evolution-runs", run_id, "versions"), page_of(Version), query(paging))

    @listing
    def configurations(self, run_id: str, **paging: Unpack[Paging]) -> Call[Page[Configuration]]:
        """What the run's generations saw, identical configurations once."""
        parameters = query({"group_by": "dsl_hash", **paging})
        return Call("GET", path("evolution-runs", run_id, "versions"), page_of(Configuration), parameters)

    @endpoint
    def checkpoint(self, run_id: str) -> Call[Json]:
        """The engine's state, exactly as it was sent."""
        return Call("GET", path("evolution-runs", run_id, "checkpoint"), exact)

    @endpoint
    def set_checkpoint(self, run_id: str, state: Payload) -> Call[Record]:
        """Replace the engine's state."""
        return Call("PUT", path("evolution-runs", run_id, "checkpoint"), one(Record), body=dump(state))


class Generations(Resource[M]):
    """The generations of runs, and their members."""

    @endpoint
    def create(self, run_id: str, **fields: Unpack[GenerationFields]) -> Call[Generation]:
        """Open a generation, the next unless `number` says which; the same number and fields again is a replay."""
        return Call("POST", path("evolution-runs", run_id, "generations"), one(Generation), body=dump(fields))

    @endpoint
    def get(self, generation_id: str) -> Call[Generation]:
        """One generation, with what is derived from its members and invocations."""
        return Call("GET", path("generations", generation_id), one(Generation))

    @endpoint
    def by_number(self, run_id: str, number: int) -> Call[Generation]:
        """The run's generation of this number."""
        target = path("evolution-runs", run_id, "generations", "by-number", str(number))
        return Call("GET", target, one(Generation))

    @listing
    def list(self, run_id: str, **paging: Unpack[Paging]) -> Call[Page[Generation]]:
        """The generations of a run, by number."""
        return Call("GET", path("evolution-runs", run_id, "generations"), page_of(Generation), query(paging))

    @endpoint
    def last_completed(self, run_id: str, *, checkpoint: bool = True) -> Call[LastCompleted]:
        """What a run needs to resume: its last completed generation, the members, and the checkpoint unless not."""
        target = path("evolution-runs", run_id, "generations", "last-completed")
        return Call("GET", target, one(LastCompleted), () if checkpoint else (("include", ""),))

    @endpoint
    def patch(self, generation_id: str, **fields: Unpack[GenerationNotes]) -> Call[Generation]:
        """Change comment and feedback where given."""
        return Call("PATCH", path("generations", generation_id), one(Generation), body=dump(fields))

    @endpoint
    def complete(self, generation_id: str, **fields: Unpack[GenerationEnd]) -> Call[Generation]:
        """Complete a generation. The first completion wins; exactly the same again is a replay."""
        return Call("POST", path("generations", generation_id, "complete"), one(Generation), body=dump(fields))

    @endpoint
    def members(self, generation_id: str) -> Call[Sequence[Member]]:
        """Everybody who was in the generation, by rank."""
        return Call("GET", path("generations", generation_id, "members"), items_of(Member))

    @endpoint
    def set_members(self, generation_id: str, items: Sequence[MemberFields]) -> Call[Sequence[Member]]:
        """Say who was in the generation, instead of what was said before."""
        target = path("generations", generation_id, "members")
        return Call("PUT", target, items_of(Member), body=dump({"items": items}))
