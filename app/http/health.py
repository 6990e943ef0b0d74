"""The operations surface: alive, ready, metrics, capabilities, the schema and its decisions."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.responses import Response

from app import __version__
from app.db.database import Answer
from app.db.page import Listing, Sort
from app.db.revision import revisions
from app.db.shape import Shape, instant
from app.db.sql import Statement
from app.errors import Unavailable
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import ListQuery, page
from app.http.parts import LOOK_SECONDS

routes = Routes("operations")

ESSENTIAL = ("postgres", "schema")
_DECISION = Shape("id", "revision_id", "title", "decision", "reason", instant("decided_at"))
_DECISIONS = Listing(
    "decisions",
    "schema_decisions AS t",
    _DECISION,
    sorts={"id": Sort('{t}.id COLLATE "C"', "text")},
    default=("id", "asc"),
    ids=('t.id COLLATE "C"',),
    of_all=True,
)
_CURRENT = Statement("SELECT version_num FROM alembic_version")
_ACTIVE_SPACE = Statement(
    "SELECT s.name AS space, s.model, s.dimensions FROM memory_spaces AS s WHERE s.tenant_id = :tenant_id AND s.active"
)


class NotReady(Unavailable):
    """PostgreSQL does not answer, or its schema is not the one that this release needs; `components` tells which."""

    code, title = "not_ready", "The service is not ready"


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"]


class Component(BaseModel):
    """How a part is."""

    status: Literal["up", "down"]
    mode: Literal["connected", "embedded", "degraded"] = Field(
        description="`embedded`: none is configured, each process does for itself; `degraded`: configured, but away."
    )
    version: str | None = None
    detail: str | None = Field(None, description="What is wrong and what to do.")


class Ready(BaseModel):
    """Whether requests are served, and how each part is."""

    status: Literal["ready", "degraded"]
    components: dict[str, Component]


class StreamConsumer(BaseModel):
    """What takes from a stream, for all processes together."""

    name: str
    pending: int = Field(description="Messages that nobody has taken yet.")
    ack_pending: int = Field(description="Messages that are taken and not done.")
    redelivered: int = Field(description="Of these, how many were taken more than once.")
    waiting: int = Field(description="Requests for messages that wait.")
    ack_seconds: float = Field(description="What is taken and not done for so long comes again.")


class StreamState(BaseModel):
    """A stream of work, its limits, and what waits in it."""

    stream: str
    mode: Literal["connected", "embedded", "degraded"] = Field(
        description="`embedded`: in this process's memory; `degraded`: so too, until NATS is back."
    )
    subject: str | None
    name: str | None
    messages: int
    bytes: int | None
    bytes_max: int | None
    age_seconds_max: float | None
    oldest_seconds: float | None
    replicas: int | None
    consumer: StreamConsumer | None
    missing: bool = Field(description="It, or its consumer, is not there; it is made again.")
    stalled: bool = Field(description="Messages wait, and none has been done for long.")
    faults: list[str] = Field(description="What is not as it is declared.")


class EmbedderState(BaseModel):
    """What makes embeddings of texts that come without theirs."""

    configured: bool = Field(description="Whether there is a service for it; it is not asked. See `cairn doctor`.")
    space: str | None = Field(description="The tenant's active space; null where there is none, or `parts` says why.")
    model: str | None = Field(description="The model of that space, which is asked for.")
    dimensions: int | None = Field(description="How many numbers an embedding in that space has.")


class Capabilities(BaseModel):
    """What is up, in which mode, which versions, and which limits hold."""

    version: str
    api: str
    parts: dict[str, Component]
    streams: list[StreamState] = Field(description="Empty where they cannot be asked; `parts` then says why.")
    signing_key: str | None = Field(
        None, description="The Ed25519 public key, in base64, that backups and receipts are signed under."
    )
    embedder: EmbedderState
    limits: dict[str, int]


class SchemaState(BaseModel):
    """The schema's revision, and the one that the code needs."""

    current: str
    expected: str
    known: list[str]


class Decision(BaseModel):
    """A decision behind the schema."""

    id: str
    revision_id: str
    title: str
    decision: str
    reason: str
    decided_at: str


class DecisionList(ListQuery):
    """How the list of decisions is paged."""

    sort: Literal["id"] | None = None


class DecisionPage(BaseModel):
    """A page of the decisions behind the schema."""

    items: list[Decision]
    next_cursor: str | None
    total: int | None = None


def _json(status: int, body: Any) -> Answer:
    return Answer(status, json.dumps(body).encode())


@routes.get("/healthz", scope="", open_to_all=True, response_model=Alive)
async def alive(call: Call) -> Answer:  # noqa: ARG001 - as every route
    """Whether the process is alive. It asks nobody; see `/readyz`."""
    return _json(200, {"status": "alive"})


@routes.get("/readyz", scope="", open_to_all=True, response_model=Ready, errors=(NotReady,))
async def ready(call: Call) -> Answer:
    """Whether requests can be served, within two seconds.

    503 only when PostgreSQL does not answer or its schema is not the one that this release needs. A part that the
    service can do without makes it `degraded`.
    """
    states = await call.ground.parts.states()
    shown = {name: state.shown() for name, state in states.items()}
    faults = [state.detail for name, state in states.items() if name in ESSENTIAL and not state.ok]
    if faults:
        raise NotReady(faults[0] or "PostgreSQL or its schema is not as needed.", components=shown)
    status = "ready" if all(state.ok for state in states.values()) else "degraded"
    return _json(200, {"status": status, "components": shown})


@routes.get(
    "/metrics", scope="", open_to_all=True, responses={200: {"content": {"text/plain": {}}}}, response_class=Response
)
async def metrics(call: Call) -> Response:
    """What Prometheus reads."""
    await call.ground.metrics.measured()
    text = call.ground.metrics.text(call.ground.database)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


# Not in a batch: it asks other servers, which no transaction waits for.
@routes.get("/v1/capabilities", scope="operations:read", response_model=Capabilities, batchable=False)
async def capabilities(call: Call) -> Answer:
    """What is up, in which mode (`connected`, `embedded`, `degraded`), which versions, streams and limits there are.

    Within two seconds or so, whatever is away.
    """
    parts, settings = call.ground.parts, call.ground.settings
    states, streams, space = await asyncio.gather(parts.states(), parts.streams(), _active_space(call))
    return _json(
        200,
        {
            "version": __version__,
            "api": "v1",
            "parts": {name: state.shown() for name, state in states.items()},
            "streams": [stream.shown() for stream in streams],
            "signing_key": None if call.ground.signer is None else call.ground.signer.public_key,
            "embedder": {"configured": call.ground.embedder is not None, **space},
            "limits": {
                "body_bytes": settings.body_bytes_max,
                "upload_bytes": settings.upload_bytes_max,
                "json_nesting": settings.nesting_max,
                "batch_operations": settings.batch_operations_max,
                "items": settings.items_max,
                "page_limit_default": settings.page_limit_default,
                "page_limit": settings.page_limit_max,
                "live_readers": settings.live_readers_max,
                **call.ground.limits,
            },
        },
    )


async def _active_space(call: Call) -> dict[str, Any]:
    """The active space of the caller's tenant; nulls without one, and where PostgreSQL does not say it in time."""
    row = None
    # `parts` says why.
    with suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            row = await call.reader.row(_ACTIVE_SPACE, tenant_id=call.caller.tenant_id)
    return {"space": None, "model": None, "dimensions": None} if row is None else dict(row)


@routes.get("/v1/schema", scope="operations:read", response_model=SchemaState)
async def schema(call: Call) -> Answer:
    """The revision of the database's schema, and the one that this release needs."""
    row = await call.reader.row(_CURRENT)
    known = revisions()
    current = None if row is None else row["version_num"]
    return _json(200, {"current": current, "expected": known[-1], "known": list(known)})


@routes.get("/v1/schema/decisions", scope="operations:read", response_model=DecisionPage)
async def decisions(call: Call, query: DecisionList) -> Answer:
    """The decisions behind the schema, as its migrations wrote them down."""
    return await page(call, _DECISIONS, query)
