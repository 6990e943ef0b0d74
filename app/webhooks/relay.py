"""Hands due deliveries out to whoever sends them: fairly among endpoints, and to none more than it may have at once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from app.bus.work import Stream, Streams, Work
from app.db.database import Database
from app.errors import AppError
from app.settings import WebhookSettings
from app.webhooks.pipeline import LANES_HELD_MAX, LANES_MAX, SQL

# One run looks at no more pages of lanes than these, then others have their turn.
PAGES_MAX = 20
# Nor does it give up more than so many times what a statement does, after each page.
GIVE_UPS_MAX = 10
DISPATCH_MAX = 2**31 - 1
log = structlog.get_logger("cairn.webhooks")


class HandOut(NamedTuple):
    """A delivery in the hands of the queue; `dispatch` counts how often it was there."""

    tenant_id: str
    delivery_id: str
    dispatch: int

    def work(self) -> Work:
        """The message: a reference, however large the event. Another dispatch is another message."""
        return Work(f"{self.delivery_id}.{self.dispatch}", json.dumps(self._asdict()).encode())

    @classmethod
    def of(cls, body: bytes) -> HandOut:
        """What a message says. Raises ValueError for what is none of ours, or could not be one of our rows."""
        try:
            read = json.loads(body)
            handed = cls(read["tenant_id"], read["delivery_id"], read["dispatch"])
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("not a delivery") from error
        # PostgreSQL stores neither NUL nor half a character, and the count is an int of its own.
        if not all(isinstance(name, str) and name.isprintable() for name in handed[:2]):
            raise ValueError("not a delivery")
        if type(handed.dispatch) is not int or not 0 <= handed.dispatch <= DISPATCH_MAX:
            raise ValueError("not a delivery")
        return handed


class _Page(NamedTuple):
    """What a page of lanes came to, and after which lane the next page begins; None after the last."""

    handed: Sequence[HandOut]
    unwanted: Sequence[tuple[str, str]]
    after: tuple[str, str] | None


class Relay:
    """The job that hands due deliveries out. It goes round the lanes, so that it gets to each whatever their number."""

    def __init__(self, settings: WebhookSettings, streams: Streams, given_up: Callable[[int], None]) -> None:
        self._settings, self._streams, self._given_up = settings, streams, given_up
        self._after = ("", "")

    async def run(self, database: Database, _limit: int) -> int:
        """Go on to the last lane, a bounded number of pages; how many deliveries were handed out or given up.

        Each page is committed before it is published. Raises `Unavailable` where that fails: then the page is back.
        """
        moved = 0
        for _ in range(PAGES_MAX):
            page = await self._page(database)
            if page.handed:
                await self._publish(database, page.handed)
            if page.unwanted:
                moved += await self._give_up(database, page.unwanted)
            moved += len(page.handed)
            self._after = page.after or ("", "")
            if page.after is None:
                break
        return moved

    async def _page(self, database: Database) -> _Page:
        concurrency = self._settings.concurrency
        async with database.writing() as transaction:
            lanes = await transaction.rows(
                SQL["lanes"], after_tenant=self._after[0], after_webhook=self._after[1], concurrency=concurrency
            )
            held = [lane for lane in lanes if lane["held"]]
            rows = (
                await transaction.rows(
                    SQL["hand_out"],
                    tenant_ids=[lane["tenant_id"] for lane in held],
                    webhook_ids=[lane["webhook_id"] for lane in held],
                    concurrency=concurrency,
                    seconds=self._settings.hand_out_seconds,
                )
                if held
                else []
            )
        # Behind the last one that was held, nobody has asked whether there is room.
        last = held[-1] if len(held) == LANES_HELD_MAX else lanes[-1] if lanes else None
        if last is not None and len(held) < LANES_HELD_MAX and last["turn"] < LANES_MAX:
            last = None
        return _Page(
            [HandOut(*row) for row in rows],
            [(lane["tenant_id"], lane["webhook_id"]) for lane in lanes if lane["unwanted"]],
            (last["tenant_id"], last["webhook_id"]) if last is not None else None,
        )

    async def _publish(self, database: Database, handed: Sequence[HandOut]) -> None:
        try:
            await self._streams.put(Stream.QUEUED, [each.work() for each in handed])
        except AppError:
            # A message that was stored nevertheless finds its delivery no longer handed out in its way.
            await hand_back(database, handed)
            raise

    async def _give_up(self, database: Database, lanes: Sequence[tuple[str, str]]) -> int:
        total = 0
        for _ in range(GIVE_UPS_MAX):
            ended = await database.rows(
                SQL["give_up"], tenant_ids=[tenant for tenant, _ in lanes], webhook_ids=[name for _, name in lanes]
            )
            total += len(ended)
            if not ended:
                break
            self._given_up(len(ended))
        if total:
            log.info("gave deliveries up that have no endpoint", deliveries=total)
        return total


async def hand_back(database: Database, handed: Sequence[HandOut]) -> None:
    """Let these wait again, as far as they are still handed out."""
    await database.rows(
        SQL["hand_back"],
        tenant_ids=[each.tenant_id for each in handed],
        ids=[each.delivery_id for each in handed],
        dispatches=[each.dispatch for each in handed],
    )


def lapse(returned: Callable[[], None]) -> Callable[[Database, int], Awaitable[int]]:
    """The job that lets hand-outs wait again of which nothing was heard in time; it rings `returned` after any."""

    async def let_wait(database: Database, _limit: int) -> int:
        lapsed = await database.rows(SQL["lapse"])
        if lapsed:
            returned()
        return len(lapsed)

    return let_wait
