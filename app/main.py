"""The composition root: every choice of an implementation. `surface.py` is what is served, `timetable.py` what runs."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog

from app import __version__
from app.background.delivering import Delivering
from app.background.telling import telling
from app.blobs.blobs import Blobs
from app.blobs.folder import Folder
from app.bus.hints import EmbeddedHints, Heard, Hints, each
from app.bus.part import Nats
from app.bus.tolerant import TolerantHints
from app.bus.tolerant_work import TolerantStreams
from app.bus.watcher import Watcher
from app.bus.work import EmbeddedStreams, Streams
from app.cache.cache import Cache
from app.cache.embedded import EmbeddedCache
from app.cache.tolerant import TolerantCache
from app.db.database import Database
from app.db.probe import Probe, revision_now
from app.documents import rules as documents
from app.embeddings.embedder import Embedder
from app.http.call import Ground
from app.http.limits import RateLimits
from app.http.live import Live
from app.http.metrics import Metrics
from app.http.parts import Parts
from app.http.received import require_folder
from app.http.remembered import Remembered
from app.http.service import Service
from app.logs import configure_logs
from app.offboarding.jobs import measured as offboardings_measured
from app.retention.jobs import followed as followed_by
from app.settings import Settings
from app.signing import signer_of
from app.surface import TAGS, WATCHED, endpoints, limits_of
from app.tenants import store as tenants
from app.tenants.keys import DEFAULT_TENANT, Keys
from app.timetable import background
from app.tracing import flush, tracer_for
from app.turns import Turns
from app.versions import store as versions

DESCRIPTION = "The persistence service for AI-agent workflows."
RECURSION_MIN = 6000
# Objects made since the last collection that start one; Python's own 700 are less than one request for 100 messages.
GARBAGE_MIN = 10_000
# So long the rules of a collection of documents are remembered; the statement that writes by them holds them.
RULES_SECONDS = 300
# How many pictures, and how many differences, wait for their turn.
DRAWINGS_WAITING_MAX, COMPARISONS_WAITING_MAX = 16, 32
# What is taken from a stream comes again so much later than an attempt may last: it waits a while before, and after.
AGAIN_SECONDS = 30
log = structlog.get_logger("cairn")


@asynccontextmanager
async def on_the_bus(
    settings: Settings, metrics: Metrics, database: Database, *listeners: Heard
) -> AsyncIterator[tuple[Hints, Streams, Delivering]]:
    """The bus, open for as long as the block is, and the way of events to webhooks over it.

    The listeners hear what moved before that way does.
    """
    hints, streams = hints_of(settings, metrics), streams_of(settings, metrics)
    delivering = Delivering(settings.webhooks, streams, metrics)
    metrics.measure_by(partial(delivering.measure, database))
    metrics.measure_by(partial(followed_by, database, metrics.retention_followed.set))
    metrics.measure_by(partial(offboardings_measured, database, metrics.offboarding_age.set))
    hints.listen(each(*listeners, delivering.heard))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(hints.close)
        stack.push_async_callback(streams.close)
        await asyncio.gather(hints.open(), streams.open())
        yield hints, streams, delivering


async def work(settings: Settings, until: asyncio.Event, on_ready: Callable[[], None]) -> None:
    """`cairn worker`: the background jobs without the API, until told to stop. Raises as `opened`."""
    async with AsyncExitStack() as stack:
        database = await opened(settings)
        stack.push_async_callback(database.close)
        metrics = Metrics()
        hints, streams, delivering = await stack.enter_async_context(on_the_bus(settings, metrics, database))
        keys = Keys(database, settings.auth)
        if settings.background.metrics_port is not None:
            port = settings.background.metrics_port
            await stack.enter_async_context(telling(metrics, database, settings.http.host, port))
        cache = cache_of(settings, metrics)
        await cache.open()
        stack.push_async_callback(cache.close)
        embedder = await stack.enter_async_context(embedder_of(settings, cache, metrics))
        blobs = blobs_of(settings)
        stack.push_async_callback(blobs.close)
        await stack.enter_async_context(
            background(settings, database, metrics, keys, hints, delivering, embedder, blobs, cache, streams)
        )
        on_ready()
        await until.wait()


async def opened(settings: Settings, name: str = "cairn") -> Database:
    """The database, if it has this code's schema. Raises `SchemaRefused`, `Unavailable`."""
    (await revision_now(settings.database, settings.database.acquire_seconds)).require()
    return await Database.open(settings.database, name=name)


def hints_of(settings: Settings, metrics: Metrics) -> Hints:
    """How processes tell each other what moved; without NATS each tells only itself."""
    if settings.nats.url is None:
        return EmbeddedHints()
    # Imported only where it is used: its client weighs as much as the service itself.
    from app.bus.nats import NatsHints  # noqa: PLC0415

    url, prefix = settings.nats.url.get_secret_value(), settings.nats.subject_prefix
    dropped = metrics.hints_dropped.inc
    return TolerantHints(lambda: NatsHints(url, prefix, dropped), metrics.absence_of("hints"), dropped)


def streams_of(settings: Settings, metrics: Metrics) -> Streams:
    """Where processes put work for each other; without NATS each puts it for itself."""
    again_seconds = settings.webhooks.attempt_seconds + AGAIN_SECONDS
    embedded = EmbeddedStreams(again_seconds)
    if settings.nats.url is None:
        return embedded
    # Imported only where it is used, as above.
    from app.bus.declared import declared  # noqa: PLC0415
    from app.bus.jetstream import JetStreams  # noqa: PLC0415

    url, streams = settings.nats.url.get_secret_value(), declared(settings.nats, again_seconds)
    return TolerantStreams(
        lambda: JetStreams(url, streams, metrics.streams_seen), embedded, metrics.absence_of("streams")
    )


def cache_of(settings: Settings, metrics: Metrics) -> Cache:
    """Where is kept what can be had elsewhere; without Redis each process keeps its own."""
    if settings.redis.url is None:
        return EmbeddedCache(metrics.cache_read)
    # Imported only where it is used, as is the client of NATS.
    from app.cache.redis import RedisCache  # noqa: PLC0415

    redis, url = settings.redis, settings.redis.url.get_secret_value()
    return TolerantCache(
        lambda: RedisCache(url, redis.key_prefix, redis.wait_seconds, metrics.redis_took),
        metrics.absence_of("redis"),
        metrics.cache_read,
    )


@asynccontextmanager
async def embedder_of(settings: Settings, cache: Cache, metrics: Metrics) -> AsyncIterator[Embedder | None]:
    """What makes embeddings of texts, for as long as the block is; None where they come with the requests."""
    if settings.embedder.url is None:
        yield None
        return
    # Imported only where it is used, as above.
    from app.embeddings.endpoint import Endpoint  # noqa: PLC0415
    from app.embeddings.remote import RemoteEmbedder  # noqa: PLC0415

    endpoint = Endpoint(settings.embedder, metrics.embedder_asked)
    embedder = RemoteEmbedder(settings.embedder, endpoint, cache, metrics.embedding_faulty)
    try:
        yield embedder
    finally:
        await embedder.close()


def blobs_of(settings: Settings) -> Blobs:
    """Where large bytes lie: in a bucket where one is named, else in a folder."""
    if settings.blobs.bucket is None:
        return Folder(settings.blobs.folder, settings.blobs.wait_seconds)
    # Imported only where it is used, as are the clients of NATS and Redis.
    from app.blobs.bucket import Bucket  # noqa: PLC0415

    return Bucket(settings.blobs)


def parts_of(settings: Settings, hints: Hints, streams: Streams, cache: Cache, blobs: Blobs) -> Parts:
    """The servers that the service stands on, seen over the connections in use; one that is not named is embedded."""
    redis = cache if isinstance(cache, TolerantCache) else None
    nats = None
    if isinstance(hints, TolerantHints) and isinstance(streams, TolerantStreams):
        nats = Nats(hints, streams)
    return Parts(Probe(settings.database), {"redis": redis, "nats": nats, "blobs": blobs}, streams)


def watcher_of(settings: Settings, database: Database) -> Watcher:
    """Waits for what others write, for every reader of this process."""
    kinds = {kind: partial(moved, database) for kind, moved in WATCHED.items()}
    return Watcher(kinds, settings.http.live_look_seconds)


def live_of(settings: Settings, watcher: Watcher, metrics: Metrics) -> Live:
    """What long-polls and event streams wait with."""
    http = settings.http
    return Live(
        watcher,
        readers_max=http.live_readers_max,
        heartbeat_seconds=http.live_heartbeat_seconds,
        stream_seconds=http.live_stream_seconds,
        counted=metrics.live_readers.track_inprogress,
    )


def spare_the_collector() -> None:
    """Leave what start-up made out of every later garbage collection, and collect less often.

    Collections took a quarter of the processor time of a busy API process: each looked at all routes and models again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_MIN)


@asynccontextmanager
async def standing(service: Service, settings: Settings) -> AsyncIterator[None]:
    """What the service stands on, connected, for as long as the block is.

    Raises as `opened`, and `Unavailable` where uploads could not be received.
    """
    require_folder(settings.http.uploads_folder)
    async with AsyncExitStack() as stack:
        database = await opened(settings)
        stack.push_async_callback(database.close)
        metrics = Metrics()
        stack.callback(metrics.close)
        keys = Keys(database, settings.auth, metrics.cache_read)
        cache, watcher = cache_of(settings, metrics), watcher_of(settings, database)
        stack.push_async_callback(cache.close)
        embedder = await stack.enter_async_context(embedder_of(settings, cache, metrics))
        kept = Remembered(versions.KIND, settings.http.version_seconds, metrics.cache_read)
        collections = Remembered(documents.KIND, RULES_SECONDS, metrics.cache_read)
        await cache.open()
        stack.push_async_callback(watcher.close)
        hints, streams, delivering = await stack.enter_async_context(
            on_the_bus(settings, metrics, database, watcher.heard, keys.heard, kept.heard, collections.heard)
        )
        blobs = blobs_of(settings)
        stack.push_async_callback(blobs.close)
        parts = parts_of(settings, hints, streams, cache, blobs)
        stack.push_async_callback(parts.close)
        drawing, comparing = Turns("drawing", DRAWINGS_WAITING_MAX), Turns("comparing", COMPARISONS_WAITING_MAX)
        stack.callback(drawing.close)
        stack.callback(comparing.close)
        live = live_of(settings, watcher, metrics)
        service.ground = Ground(
            database, settings.http, metrics, service.paths, parts, drawing, comparing, hints, live, cache, kept,
            collections, blobs, settings.blobs.inline_bytes_max, limits_of(settings), embedder,
            signer_of(settings.signing),
        )  # fmt: skip
        service.authenticator, service.rate_limits = keys, RateLimits(cache)
        traced = tracer_for(settings.tracing)
        if traced is not None:
            service.tracer = traced[0]
            stack.push_async_callback(flush, traced[1])
        if settings.auth.mode == "off":
            await tenants.ensure(database.once(""), DEFAULT_TENANT, "Default")
        if settings.background.enabled:
            await stack.enter_async_context(
                background(settings, database, metrics, keys, hints, delivering, embedder, blobs, cache, streams)
            )
        yield


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
        async with standing(service, chosen):
            if settings is None:
                spare_the_collector()
            yield

    return Service(
        endpoints(chosen),
        title="Cairn",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=[{"name": name, "description": description} for name, description in TAGS.items()],
        lifespan=lifespan,
    )
