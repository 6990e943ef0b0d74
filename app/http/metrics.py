"""What Prometheus reads: requests by route template and status, times, connections. Labels are bounded."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from app.bus.standing import Standing
from app.db.database import Database
from app.errors import AppError

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# What lies in PostgreSQL is measured when somebody reads, this often at most, and waited for no longer than that.
MEASURE_SECONDS, MEASURE_WAIT_SECONDS = 5.0, 1.0


class Absence:
    """Whether a part is away, and for how long it was, in seconds. It begins as there."""

    def __init__(self, away: Gauge, seconds: Counter) -> None:
        self._away, self._seconds = away, seconds
        self._since: float | None = None
        away.set(0)

    def __call__(self, away: bool) -> None:
        """Tell how it is now."""
        self.count()
        if away != (self._since is not None):
            self._away.set(away)
            self._since = time.monotonic() if away else None

    def count(self) -> None:
        """Count the time up to now."""
        if self._since is not None:
            now = time.monotonic()
            self._seconds.inc(now - self._since)
            self._since = now


class Metrics:
    """The process's own registry; several processes share files when PROMETHEUS_MULTIPROC_DIR is set."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cairn_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "cairn_http_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.connections = Gauge(
            "cairn_database_connections", "Connections of this process.", ("state",), registry=self.registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self.sequenced = Counter("cairn_events_sequenced", "Events given a position.", registry=self.registry)
        self.sequencer_delay = Histogram(
            "cairn_event_sequencing_seconds", "From an event's write to its position.", buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.job_runs = Counter("cairn_background_runs", "Background runs.", ("job", "outcome"), registry=self.registry)
        self.live_readers = Gauge(
            "cairn_live_readers", "Readers that wait for what others write.", registry=self.registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self.hints_dropped = Counter(
            "cairn_hints_dropped", "Hints that other processes were not told.", registry=self.registry
        )
        self._cache_reads = Counter(
            "cairn_cache_reads", "What was asked of the cache.", ("kind", "outcome"), registry=self.registry
        )
        self._redis_seconds = Histogram(
            "cairn_redis_command_seconds", "Time that Redis took, the line before it included.", ("command",),
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self._degraded = Gauge(
            "cairn_degraded", "Processes that do without this part.", ("part",), registry=self.registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._degraded_seconds = Counter(
            "cairn_degraded_seconds", "How long processes did without this part.", ("part",), registry=self.registry
        )
        self._absences: dict[str, Absence] = {}
        self._reads: dict[tuple[str, str], Counter] = {}
        self.webhook_attempts = Histogram(
            "cairn_webhook_attempt_seconds", "Time of an attempt to deliver, by what came of it.", ("outcome",),
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.webhook_given_up = Counter(
            "cairn_webhook_given_up", "Deliveries that became dead letters.", registry=self.registry
        )
        self.webhooks_disabled = Counter(
            "cairn_webhooks_disabled", "Webhooks disabled because they failed.", registry=self.registry
        )
        self.letters_announced = Counter(
            "cairn_dead_letters_announced", "Dead letters of webhooks told on the bus.", registry=self.registry
        )
        self._artifacts_collected = Counter(
            "cairn_artifacts_collected", "Artifacts whose bytes were deleted.", registry=self.registry
        )
        self._artifact_bytes_collected = Counter(
            "cairn_artifact_bytes_collected", "Bytes of artifacts that were deleted.", registry=self.registry
        )
        self._collection_finished = Gauge(
            "cairn_artifacts_collected_timestamp_seconds", "When artifacts were last looked at that can be collected.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._cleanup_finished = Gauge(
            "cairn_cleanup_timestamp_seconds", "When the scheduled clean-ups that were due last came to their end.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._jobs_ended = Counter(
            "cairn_jobs_ended", "Jobs of clients that ended.", ("kind", "state"), registry=self.registry
        )
        self._retention_removed = Counter(
            "cairn_retention_removed", "Rows that left by rules of retention.", ("table",), registry=self.registry
        )
        self.retention_followed = Gauge(
            "cairn_retention_timestamp_seconds", "When the rules of every tenant were last followed to their end.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        # Each process measures the same for all of them, so the last one to look is right.
        self.offboarding_age = Gauge(
            "cairn_offboarding_oldest_seconds", "How long the oldest offboarding that is carried out goes on.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self.webhook_pending = Gauge(
            "cairn_webhook_pending", "Deliveries that wait, counted up to 100,000.", registry=self.registry,
            multiprocess_mode="mostrecent",
        )  # fmt: skip
        self.webhook_due_age = Gauge(
            "cairn_webhook_oldest_due_seconds", "How long the oldest due delivery of an endpoint that is well waits.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self.outbox_depth = Gauge(
            "cairn_outbox_depth", "Events without a position, counted up to 100,000.", registry=self.registry,
            multiprocess_mode="mostrecent",
        )  # fmt: skip
        self.outbox_age = Gauge(
            "cairn_outbox_oldest_seconds", "How long the oldest event without a position waits.",
            registry=self.registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self.stream_messages = self._of_stream("messages", "Messages that are stored.")
        self.stream_pending = self._of_stream("pending", "Messages that no process has taken yet.")
        self.stream_ack_pending = self._of_stream("ack_pending", "Messages that are taken and not done.")
        self.stream_oldest = self._of_stream("oldest_seconds", "Age of the oldest message.")
        self._embedder_seconds = Histogram(
            "cairn_embedder_request_seconds", "Time of a request to the embedding service, by what came of it.",
            ("outcome",), buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self._embedding_faults = Counter(
            "cairn_embedding_faults", "Texts that the embedding service gave no good embedding for.", ("code",),
            registry=self.registry,
        )  # fmt: skip
        self._index_builds = Histogram(
            "cairn_memory_index_build_seconds", "Time of a build of an index of memory, by what came of it.",
            ("outcome",), buckets=(1, 10, 60, 300, 1800, 7200), registry=self.registry,
        )  # fmt: skip
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._measures: list[Callable[[], Awaitable[None]]] = []
        self._measured_at = float("-inf")

    def _of_stream(self, name: str, told: str) -> Gauge:
        # Every process sees the same streams.
        return Gauge(
            f"cairn_stream_{name}", told, ("stream",), registry=self.registry, multiprocess_mode="livemostrecent"
        )

    def streams_seen(self, streams: Sequence[Standing]) -> None:
        """Set what is known of each stream."""
        for one in streams:
            self.stream_messages.labels(one.stream).set(one.messages)
            self.stream_oldest.labels(one.stream).set(one.oldest_seconds or 0)
            if one.consumer is not None:
                self.stream_pending.labels(one.stream).set(one.consumer.pending)
                self.stream_ack_pending.labels(one.stream).set(one.consumer.ack_pending)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request. A method that nobody knows is counted as `other`, so labels stay few."""
        method = method if method in METHODS else "other"
        series = self._series.get((method, route, status))
        if series is None:
            series = self.requests.labels(method, route, str(status)), self.seconds.labels(route)
            self._series[method, route, status] = series
        series[0].inc()
        series[1].observe(seconds)

    def cache_read(self, kind: str, outcome: str) -> None:
        """Count what was asked of a cache: a `hit`, a `miss`, or `away`."""
        read = self._reads.get((kind, outcome))
        if read is None:
            read = self._reads[kind, outcome] = self._cache_reads.labels(kind, outcome)
        read.inc()

    def redis_took(self, command: str, seconds: float) -> None:
        """Count the seconds of one command."""
        self._redis_seconds.labels(command).observe(seconds)

    def embedder_asked(self, outcome: str, seconds: float) -> None:
        """Count a request to the embedding service: `answered`, `refused` or `failed`."""
        self._embedder_seconds.labels(outcome).observe(seconds)

    def embedding_faulty(self, code: str) -> None:
        """Count a text that has no good embedding."""
        self._embedding_faults.labels(code).inc()

    def index_built(self, outcome: str, seconds: float) -> None:
        """Count a build of an index of memory: `built`, `failed` or `cancelled`."""
        self._index_builds.labels(outcome).observe(seconds)

    def absence_of(self, part: str) -> Absence:
        """Where somebody who keeps a part tells whether it is away."""
        if part not in self._absences:
            self._absences[part] = Absence(self._degraded.labels(part), self._degraded_seconds.labels(part))
        return self._absences[part]

    def webhook_attempted(self, outcome: str, seconds: float) -> None:
        """Count an attempt at a delivery: `delivered`, `failed`, `dead` or `interrupted`."""
        self.webhook_attempts.labels(outcome).observe(seconds)

    def artifact_collected(self, size_bytes: int) -> None:
        """Count an artifact that was deleted."""
        self._artifacts_collected.inc()
        self._artifact_bytes_collected.inc(size_bytes)

    def collection_finished(self) -> None:
        """Note that a run of collection came to its end."""
        self._collection_finished.set_to_current_time()

    def cleanup_finished(self) -> None:
        """Note that every clean-up that was due came to its end."""
        self._cleanup_finished.set_to_current_time()

    def job_ended(self, kind: str, state: str) -> None:
        """Count a job that a client asked for, or a rule, by the state that it ended in."""
        self._jobs_ended.labels(kind, state).inc()

    def retention_removed(self, table: str, rows: int) -> None:
        """Count rows that left by a rule."""
        self._retention_removed.labels(table).inc(rows)

    def sequenced_after(self, waited: list[float]) -> None:
        """Count events that were given a position, and how long each of them waited for it, in seconds."""
        self.sequenced.inc(len(waited))
        for seconds in waited:
            self.sequencer_delay.observe(seconds)

    def measure_by(self, measure: Callable[[], Awaitable[None]]) -> None:
        """Say who measures what is known to PostgreSQL alone, one after the other."""
        self._measures.append(measure)

    async def measured(self) -> None:
        """Return when that was measured a moment ago; what cannot be had in time keeps its last value."""
        now = time.monotonic()
        if not self._measures or now - self._measured_at < MEASURE_SECONDS:
            return
        self._measured_at = now
        with suppress(AppError, TimeoutError):
            async with asyncio.timeout(MEASURE_WAIT_SECONDS):
                for measure in self._measures:
                    await measure()

    def text(self, database: Database | None) -> bytes:
        """The exposition text."""
        if database is not None:
            size, idle = database.connections
            self.connections.labels("idle").set(idle)
            self.connections.labels("busy").set(size - idle)
        for absence in self._absences.values():
            absence.count()
        if self._shared():
            _forget_the_dead(Path(os.environ[SHARED_FOLDER]))
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry)
        return generate_latest(self.registry)

    def close(self) -> None:
        """Take this process's own gauges out of the sum; what it counted stays."""
        if self._shared():
            multiprocess.mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]

    @staticmethod
    def _shared() -> bool:
        return SHARED_FOLDER in os.environ


def _forget_the_dead(folder: Path) -> None:
    """Take the gauges of processes out of the sum that were killed, and could not do so themselves."""
    for pid in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]
        except PermissionError:
            continue  # it lives, as another user's
