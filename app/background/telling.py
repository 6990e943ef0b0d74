"""Answers `GET /metrics` for a process that answers nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from app.db.database import Database
from app.errors import Unavailable
from app.http.metrics import Metrics

log = structlog.get_logger("cairn.background")


@asynccontextmanager
async def telling(metrics: Metrics, database: Database, host: str, port: int) -> AsyncIterator[None]:
    """Answer on this port, 0 for a free one, while the block runs. Raises `Unavailable` where it cannot be had."""

    async def answer(_request: web.Request) -> web.Response:
        await metrics.measured()
        return web.Response(body=metrics.text(database), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise Unavailable(
                f"Port {port} of {host} cannot be had ({error.strerror}); correct CAIRN_BACKGROUND__METRICS_PORT."
            ) from error
        log.info("metrics can be read", host=host, port=runner.addresses[0][1])
        yield
    finally:
        await runner.cleanup()
