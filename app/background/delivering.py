"""What carries events to webhooks beside the requests: lines of the timetable, a worker, and the bells between them."""

from __future__ import annotations

from collections.abc import Sequence

from app.background.runner import Entry
from app.bus.bell import Bell
from app.bus.hints import Key
from app.bus.work import Streams
from app.db.database import Database
from app.events.store import Subject
from app.http.metrics import Metrics
from app.settings import WebhookSettings
from app.webhooks.announcing import announce
from app.webhooks.delivery_store import DELIVERIES_KIND
from app.webhooks.fanout import fan_out
from app.webhooks.pipeline import LAPSED_MAX, LETTERS_MAX, LOST_MAX, SQL
from app.webhooks.relay import Relay, lapse
from app.webhooks.settling import Settled, recover
from app.webhooks.worker import Worker

LAPSE_SECONDS = 1.0
# Behind the bells each looks by itself too: another process may have moved what it waits for.
LETTER_SECONDS = 5.0


class Delivering:
    """The way of an event to its endpoints, as far as this process walks it."""

    def __init__(self, settings: WebhookSettings, streams: Streams, metrics: Metrics) -> None:
        self._settings, self._streams, self._metrics = settings, streams, metrics
        self.sequenced, self.due, self.dead = Bell(), Bell(), Bell()

    def entries(self) -> list[Entry]:
        """The lines of the timetable."""
        settings, look = self._settings, self._settings.look_seconds
        relay = Relay(settings, self._streams, self._given_up)
        tell = announce(self._streams, self._metrics.letters_announced.inc)
        return [
            Entry("make deliveries", fan_out(self.due.ring), look, limit=2000, bell=self.sequenced),
            Entry("hand deliveries out", relay.run, look, limit=1000, bell=self.due),
            Entry("hand lost deliveries out anew", lapse(self.due.ring), LAPSE_SECONDS, limit=LAPSED_MAX),
            Entry("settle lost attempts", recover(settings, self.settled), LAPSE_SECONDS, limit=LOST_MAX),
            Entry("announce dead letters", tell, LETTER_SECONDS, limit=LETTERS_MAX, bell=self.dead),
        ]

    def worker(self, database: Database, subjects: Sequence[Subject]) -> Worker:
        """Sends what is handed out; to be started and stopped."""
        return Worker(self._settings, database, self._streams, subjects, self._metrics, self.settled)

    def heard(self, key: Key | None) -> None:
        """A client had deliveries sent anew, here or in another process."""
        if key is None or key.kind == DELIVERIES_KIND:
            self.due.ring()

    def settled(self, settled: Settled) -> None:
        """Attempts were settled: there is room for others, and letters may be there to tell of."""
        self.due.ring()
        if settled.dead:
            self._given_up(settled.dead)
        if settled.disabled:
            self._metrics.webhooks_disabled.inc(settled.disabled)

    def _given_up(self, deliveries: int) -> None:
        self._metrics.webhook_given_up.inc(deliveries)
        self.dead.ring()

    async def measure(self, database: Database) -> None:
        """Look how much waits, and for how long; whoever does the work, PostgreSQL knows what is left of it."""
        row = await database.row(SQL["depths"])
        if row is not None:
            self._metrics.webhook_pending.set(row["pending"])
            self._metrics.webhook_due_age.set(row["due_seconds"] or 0)
            self._metrics.outbox_depth.set(row["outbox"])
            self._metrics.outbox_age.set(row["outbox_seconds"] or 0)
