"""B31: messages of one delivery that are taken together count as the latest of them, in whichever order they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from app.background.delivering import Delivering
from app.bus.work import EmbeddedStreams, Stream
from app.db.sql import Statement
from app.http.metrics import Metrics
from app.settings import WebhookSettings
from app.surface import SUBJECTS
from app.webhooks.relay import HandOut
from tests.webhooks.pipeline import ALLOWED, subscribe
from tests.webhooks.receiving import receiving
from tests.webhooks.test_nothing_is_lost_or_stuck import TENANT, opened


@pytest.mark.parametrize("dispatches", [(1, 2), (2, 1)])
async def test_an_older_message_beside_it_hides_none(
    clone: Callable[[], Awaitable[str]], dispatches: tuple[int, int]
) -> None:
    streams, settings = EmbeddedStreams(60), WebhookSettings(**ALLOWED)  # type: ignore[arg-type]
    async with receiving() as receiver, opened(await clone()) as database:
        worker = Delivering(settings, streams, Metrics()).worker(database, SUBJECTS)
        await subscribe(database, TENANT, receiver.url)
        (row,) = await database.rows(
            Statement(
                "INSERT INTO webhook_deliveries (tenant_id, webhook_id, event_type, body, status, dispatch, lapses_at)"
                " VALUES (:t, 'wh', 'webhook.test', '{}', 'queued', 2, now() + interval '1 hour') RETURNING id"
            ),
            t=TENANT,
        )
        await streams.put(Stream.QUEUED, [HandOut(TENANT, row["id"], dispatch).work() for dispatch in dispatches])
        worker.start()
        try:
            await receiver.until(lambda: len(receiver.received) == 1, seconds=5)
        finally:
            await worker.stop()
        assert receiver.received[0].id == row["id"]
