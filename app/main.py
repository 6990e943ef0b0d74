"""The composition root: routes, jobs, and every choice between implementations."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app import __version__
from app.db.database import Database
from app.http.batch import routes as batch_routes
from app.http.call import Ground
from app.http.endpoint import Endpoint
from app.http.metrics import Metrics
from app.http.service import Service
from app.invocations.routes import routes as invocation_routes
from app.logs import configure_logs
from app.messages.routes import routes as message_routes
from app.nodes.routes import routes as node_routes
from app.settings import Settings
from app.tenants import store as tenants
from app.tenants.keys import DEFAULT_TENANT, Keys
from app.tenants.routes import routes as tenant_routes
from app.traces.routes import routes as trace_routes
from app.versions.node_routes import routes as node_version_routes
from app.versions.routes import routes as version_routes
from app.workflows.routes import routes as workflow_routes

DESCRIPTION = "The persistence service for AI-agent workflows."
RECURSION_MIN = 6000


def endpoints() -> list[Endpoint]:
    """Every operation of the API, in the order in which it is documented."""
    return [
        *tenant_routes,
        *workflow_routes,
        *version_routes,
        *node_version_routes,
        *invocation_routes,
        *node_routes,
        *message_routes,
        *trace_routes,
        *batch_routes,
    ]


def create_app(settings: Settings | None = None) -> Service:
    """The service for these settings; it connects when its lifespan starts.

    Without settings it is a process of its own: it reads them from the environment and sets up the logs too.
    """
    chosen = settings or Settings()
    if settings is None:
        configure_logs(chosen.log)
    # Payloads nest up to the stated limit; pure-Python walks over them need frames to match.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_MIN))

    @asynccontextmanager
    async def lifespan(service: Service) -> AsyncIterator[None]:
        database = await Database.open(chosen.database)
        try:
            service.ground = Ground(database, chosen.http, Metrics(), service.paths)
            service.authenticator = Keys(database, chosen.auth)
            if chosen.auth.mode == "off":
                await tenants.ensure(database.once(""), DEFAULT_TENANT, "Default")
            yield
        finally:
            await database.close()

    return Service(
        endpoints(),
        title="Cairn",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
    )
