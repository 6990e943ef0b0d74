"""Calls about going on: sessions, checkpoints of invocations, and resuming from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging, Payload, Texts
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import Json, dump
from app.client.models import Invocation, NodeInvocation
from app.client.record import Record

M = TypeVar("M")


class Session(Record):
    """A span of work; an open one whose `expires_at` has passed reads `expired`."""

    id: str
    owner_id: str | None
    status: str
    metadata: dict[str, Any]
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Checkpoint(Record):
    """The state of an invocation after a step, exactly as it was sent."""

    invocation_id: str
    number: int
    node_id: str | None
    state: Json | None
    created_at: datetime


class Resumption(Record):
    """What is done of an invocation, and where it stood."""

    invocation: Invocation
    checkpoint: Checkpoint | None
    completed_nodes: list[NodeInvocation]
    running_nodes: list[NodeInvocation]
    failed_nodes: list[NodeInvocation]
    node_counts: dict[str, int]


class SessionFields(TypedDict, total=False):
    """A session, without its id."""

    owner_id: str | None
    status: Literal["active", "suspended", "completed", "crashed", "archived"]
    metadata: Mapping[str, Any]
    expires_at: Instant | None


class SessionFilter(Paging, total=False):
    """Which sessions to list."""

    owner_id: str
    status: Texts
    created_after: Instant
    created_before: Instant
    expires_after: Instant
    expires_before: Instant


class CheckpointFields(TypedDict, total=False):
    """A checkpoint; without `number` it gets the next under its invocation."""

    number: int
    node_id: str | None
    state: Required[Payload]


class Sessions(Resource[M]):
    """Sessions, which invocations may name."""

    @endpoint
    def create(self, session_id: str | None = None, **fields: Unpack[SessionFields]) -> Call[Session]:
        """Create a session; without an id the service makes one."""
        body = fields if session_id is None else {"id": session_id, **fields}
        return Call("POST", path("sessions"), one(Session), body=dump(body))

    @endpoint
    def get(self, session_id: str) -> Call[Session]:
        """One session."""
        return Call("GET", path("sessions", session_id), one(Session))

    @listing
    def list(self, **filters: Unpack[SessionFilter]) -> Call[Page[Session]]:
        """Sessions, the newest first."""
        return Call("GET", path("sessions"), page_of(Session), query(filters))

    @endpoint
    def patch(self, session_id: str, **fields: Unpack[SessionFields]) -> Call[Session]:
        """Change the fields given; what has ended may only be archived."""
        return Call("PATCH", path("sessions", session_id), one(Session), body=dump(fields))

    @endpoint
    def delete(self, session_id: str) -> Call[None]:
        """Delete a session; invocations that name it stay."""
        return Call("DELETE", path("sessions", session_id), nothing)


class Checkpoints(Resource[M]):
    """The checkpoints of invocations."""

    @endpoint
    def record(
        self, invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[CheckpointFields]
    ) -> Call[Checkpoint]:
        """Record the state of an invocation; the same number with the same state is a replay."""
        target = path("invocations", invocation_id, "checkpoints")
        return Call("POST", target, one(Checkpoint), query({"include": include}), dump(fields))

    @listing
    def list(
        self, invocation_id: str, *, node_id: str | None = None, **paging: Unpack[Paging]
    ) -> Call[Page[Checkpoint]]:
        """The checkpoints of an invocation, by number."""
        target = path("invocations", invocation_id, "checkpoints")
        return Call("GET", target, page_of(Checkpoint), query({"node_id": node_id, **paging}))

    @endpoint
    def get(self, invocation_id: str, number: int, *, include: Sequence[str] = ()) -> Call[Checkpoint]:
        """One checkpoint with its state."""
        target = path("invocations", invocation_id, "checkpoints", str(number))
        return Call("GET", target, one(Checkpoint), query({"include": include}))

    @endpoint
    def latest(
        self, invocation_id: str, *, node_id: str | None = None, include: Sequence[str] = ()
    ) -> Call[Checkpoint]:
        """The checkpoint with the greatest number, of one node if told so."""
        target = path("invocations", invocation_id, "checkpoints", "latest")
        return Call("GET", target, one(Checkpoint), query({"node_id": node_id, "include": include}))

    @endpoint
    def resume(self, invocation_id: str, *, include: Sequence[str] = ()) -> Call[Resumption]:
        """Go on with an invocation: what is done of it; `include=["state"]` shows the last checkpoint's state."""
        target = path("invocations", invocation_id, "resume")
        return Call("POST", target, one(Resumption), query({"include": include}))
