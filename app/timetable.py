"""What runs beside the requests: every entry of the timetable, and what sends deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from app.artifacts.jobs import Collection
from app.background.delivering import Delivering
from app.background.housekeeping import purge_kept_answers
from app.background.runner import RUN_SECONDS, Entry, Runner
from app.background.singletons import ServiceLease
from app.background.work import JobRunner
from app.backups import store as backups
from app.blobs.blobs import Blobs
from app.bus.hints import Hints
from app.bus.work import Streams
from app.cache.cache import Cache
from app.contexts.jobs import purge_expired as purge_contexts
from app.db.database import Database
from app.documents.store import purge as purge_documents
from app.embeddings.embedder import Embedder
from app.errors import AppError
from app.events import watching as events
from app.events.jobs import drop_empty_months, keep_partitions_ahead, sequencer
from app.http.metrics import Metrics
from app.maintenance.jobs import cleaner
from app.memory.indexing import IndexBuilder
from app.memory.jobs import drop_deleted_spaces, purge_expired_items
from app.offboarding.jobs import RUN_SECONDS as OFFBOARDING_SECONDS
from app.offboarding.jobs import Offboarder
from app.retention.jobs import follower
from app.settings import Settings
from app.signing import signer_of
from app.submissions.jobs import expiry
from app.surface import HOLDERS, SUBJECTS, kinds_of
from app.tenants.keys import Keys

# All objects are listed so much more rarely than artifacts are looked at.
COLLECTIONS_IN_SWEEP = 12
# How long the end waits for the database to hear of it.
LAST_SECONDS = 1
log = structlog.get_logger("cairn")


@dataclass(frozen=True)
class Workers:
    """Who does what outlasts one look: each knows what it has begun, and lets go of it at the end."""

    jobs: JobRunner
    wholes: JobRunner
    delivering: Delivering
    housekeeping: ServiceLease
    builder: IndexBuilder
    offboarder: Offboarder


def timetable(
    settings: Settings, metrics: Metrics, keys: Keys, hints: Hints, blobs: Blobs, workers: Workers
) -> list[Entry]:
    """What runs beside the requests, and when."""
    delivering, housekeeping = workers.delivering, workers.housekeeping
    idle = settings.background
    # A step of a job may wait for embeddings before it begins.
    job_seconds = RUN_SECONDS + settings.embedder.wait_seconds

    async def write_down_key_use(_database: Database, _limit: int) -> int:
        return await keys.record_use()

    def tell_of_events(tenant_ids: list[str]) -> None:
        hints.publish(*events.keys_of(tenant_ids))
        delivering.sequenced.ring()

    collection = Collection(
        blobs,
        HOLDERS,
        settings.blobs.grace_seconds,
        metrics.artifact_collected,
        metrics.collection_finished,
        backups.left_over,
    )
    collect_seconds = settings.blobs.collect_seconds
    sequence = sequencer(metrics.sequenced_after, tell_of_events)
    return [
        Entry("sequence events", sequence, idle.sequencer_idle_seconds, limit=1000),
        housekeeping.keeping(),
        housekeeping.only(Entry("keep partitions ahead", keep_partitions_ahead, 3600, limit=12)),
        housekeeping.only(Entry("drop empty months", drop_empty_months, 3600, limit=100)),
        Entry("carry out jobs", workers.jobs.run, idle.job_idle_seconds, limit=1000, run_seconds=job_seconds),
        Entry(
            "carry out whole jobs",
            workers.wholes.run,
            settings.backups.idle_seconds,
            limit=1,
            run_seconds=settings.backups.job_seconds,
        ),
        housekeeping.only(Entry("purge kept answers", purge_kept_answers, 60, limit=1000)),
        housekeeping.only(Entry("purge expired contexts", purge_contexts, 60, limit=1000)),
        housekeeping.only(Entry("purge expired documents", purge_documents, 60, limit=1000)),
        housekeeping.only(Entry("collect artifacts", collection.collect, collect_seconds, limit=200)),
        housekeeping.only(Entry("sweep objects", collection.sweep, collect_seconds * COLLECTIONS_IN_SWEEP, limit=5000)),
        housekeeping.only(Entry("clean up what is stale", cleaner(metrics.cleanup_finished), 10, limit=100)),
        housekeeping.only(
            Entry(
                "follow rules of retention", follower(settings.retention.look_seconds), settings.retention.look_seconds
            )
        ),
        Entry("write down key use", write_down_key_use, 5, limit=100_000),
        housekeeping.only(Entry("purge expired memory", purge_expired_items, 10, limit=1000)),
        housekeeping.only(Entry("drop deleted spaces", drop_deleted_spaces, 30, limit=20)),
        housekeeping.only(
            Entry("build indexes of memory", workers.builder.look, settings.memory.index_look_seconds, limit=2)
        ),
        Entry(
            "offboard tenants",
            workers.offboarder.run,
            settings.offboarding.look_seconds,
            limit=1,
            run_seconds=OFFBOARDING_SECONDS,
        ),
        Entry("end lapsed leases", expiry(settings.queue, hints), settings.queue.lapse_seconds, limit=200),
        *delivering.entries(),
    ]


@asynccontextmanager
async def background(
    settings: Settings,
    database: Database,
    metrics: Metrics,
    keys: Keys,
    hints: Hints,
    delivering: Delivering,
    embedder: Embedder | None,
    blobs: Blobs,
    cache: Cache,
    streams: Streams,
) -> AsyncIterator[None]:
    """The timetable and what sends deliveries, running for as long as the block does."""
    kinds = kinds_of(settings, embedder, blobs, hints, metrics.retention_removed)
    jobs, wholes = (
        JobRunner(kinds, settings.background.job_lease_seconds, hints, as_a_whole=whole, ended=metrics.job_ended)
        for whole in (False, True)
    )
    worker = delivering.worker(database, SUBJECTS)
    housekeeping = ServiceLease("housekeeping", settings.background.housekeeping_lease_seconds)
    builder = IndexBuilder(settings.database, settings.memory, metrics.index_built)
    offboarder = Offboarder(settings.offboarding, blobs, cache, streams, hints, signer_of(settings.signing))
    workers = Workers(jobs, wholes, delivering, housekeeping, builder, offboarder)
    entries = timetable(settings, metrics, keys, hints, blobs, workers)
    runner = Runner(entries, database, metrics)
    runner.start()
    worker.start()
    try:
        yield
    finally:
        await asyncio.gather(runner.stop(), worker.stop(), builder.close())
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await housekeeping.release(database)
                await jobs.release(database)
                await wholes.release(database)
                await offboarder.release(database)
                await keys.record_use()
        except (AppError, TimeoutError) as error:
            # The leases lapse by themselves, and the use of keys is no more than a hint.
            log.warning("ended without the database", error=str(error) or type(error).__name__)
