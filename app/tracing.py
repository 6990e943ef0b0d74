"""OpenTelemetry: built only when an endpoint is given; nothing of it is imported otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from opentelemetry.trace import Tracer

from app import __version__
from app.settings import TracingSettings


class TracingMissing(Exception):
    """An endpoint is given, but the packages that send traces are not installed."""


def tracer_for(settings: TracingSettings) -> tuple[Tracer, Callable[[], None]] | None:
    """A tracer that sends to the endpoint, and what sends the rest at the end; None where no endpoint is given."""
    if settings.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415
    except ImportError as error:
        raise TracingMissing(
            "CAIRN_TRACING__ENDPOINT is set, but what sends traces is not installed: pip install 'cairn[tracing]'."
        ) from error
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(settings.sample_ratio),
        resource=Resource.create({"service.name": "cairn", "service.version": __version__}),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(settings.endpoint, timeout=2)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider.get_tracer("cairn", __version__), provider.shutdown


async def flush(send_the_rest: Callable[[], None]) -> None:
    """Send what traces remain, a bounded time; a collector that is away holds nothing up."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(send_the_rest), 1)
