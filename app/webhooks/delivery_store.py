"""Deliveries in SQL: what is shown of them, and how one is sent anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.shape import Column, Shape, computed, instant, instant_sql, stored_bytes
from app.db.sql import Statement, load
from app.errors import AppError
from app.webhooks.errors import (
    DeliveryGone,
    DeliveryNotFound,
    DeliveryUnderWay,
    EndpointDisabled,
    EndpointGone,
    EventGone,
)
from app.webhooks.store import get as get_webhook

# The kind of the hint that deliveries of a tenant are due.
DELIVERIES_KIND = "deliveries"
ATTEMPTS_SHOWN_MAX = 100
_ATTEMPT = Shape("number", instant("started_at"), "duration_ms", "status_code", "error", "response")
# The latest ones, in their order.
_ATTEMPTS = (
    f"(SELECT COALESCE(json_agg({_ATTEMPT.json('a')} ORDER BY a.number), '[]') FROM ("
    "SELECT m.* FROM webhook_attempts AS m WHERE m.tenant_id = {t}.tenant_id AND m.delivery_id = {t}.id"
    f" ORDER BY m.number DESC LIMIT {ATTEMPTS_SHOWN_MAX}) AS a)"
)
# What an event says to an endpoint, of its row `e`. Written here alone, so that every attempt sends the same.
EVENT_BODY = (
    "(SELECT row_to_json(shown) FROM (SELECT e.type, "
    + instant_sql("e.occurred_at")
    + ' AS "timestamp", e.data) AS shown)'
)
# What is kept, or the event as it is sent; null where neither is there any more.
BODY = (
    f"COALESCE({{t}}.body, (SELECT {EVENT_BODY} FROM events AS e WHERE e.tenant_id = {{t}}.tenant_id"
    " AND e.position = {t}.event_position AND e.sequenced_at = {t}.event_sequenced_at))"
)
_COLUMNS = (
    "id",
    "webhook_id",
    "event_id",
    "event_type",
    "event_position",
    "status",
    "attempt_count",
    computed("next_attempt_at", f"CASE WHEN {{t}}.status = 'pending' THEN {instant_sql('{t}.due_at')} END"),
    "last_status_code",
    "last_error",
    instant("created_at"),
    instant("ended_at"),
)
_BODY = Column("body", BODY, verbatim=True)
DELIVERY = Shape(*_COLUMNS, _BODY)
_WHOLE = Shape(*_COLUMNS, computed("attempts", _ATTEMPTS), _BODY)


DELIVERIES = Listing(
    "deliveries",
    "webhook_deliveries AS t",
    DELIVERY,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "webhook_id": "t.webhook_id = :webhook_id",
        "status": "t.status = ANY (CAST(:status AS text[]))",
        "event_type": "t.event_type = ANY (CAST(:event_type AS text[]))",
        "event_id": "t.event_id = :event_id",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
    weights={"body": stored_bytes("t.body")},
)
_SQL = load(
    __file__,
    "delivery_queries.sql",
    delivery=_WHOLE.json("t"),
    now=instant_sql("clock_timestamp()"),
)


async def test(writer: Writer, tenant_id: str, webhook_id: str, data: bytes | None) -> Answer:
    """Make a delivery of type `webhook.test`, due now. Raises `WebhookNotFound`, `EndpointDisabled`."""
    answer = await writer.answer(_SQL["test"], tenant_id=tenant_id, id=webhook_id, data=data)
    if answer is None:
        await get_webhook(writer, tenant_id, webhook_id)
        raise EndpointDisabled("The webhook is disabled; enable it first.", webhook_id=webhook_id)
    return answer


@lru_cache(maxsize=2)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT {_WHOLE.json('t', include)} AS body FROM webhook_deliveries AS t"
        " WHERE t.tenant_id = :tenant_id AND t.id = :id"
    )


async def get(reader: Reader, tenant_id: str, delivery_id: str, include: frozenset[str]) -> Answer:
    """The delivery with its attempts. Raises `DeliveryNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, id=delivery_id)
    if row is None:
        raise DeliveryNotFound("There is no such delivery.", id=delivery_id)
    return Answer(200, row["body"])


def key_of(tenant_id: str) -> Key:
    """What wakes those who hand deliveries out."""
    return Key(DELIVERIES_KIND, tenant_id, "")


async def redeliver(writer: Writer, tenant_id: str, delivery_id: str) -> Answer:
    """Send a delivery that has ended again, in a new round of attempts; its dead letter goes.

    Raises `DeliveryNotFound`, `DeliveryUnderWay`, `EndpointGone`, `EndpointDisabled`, `EventGone`.
    """
    answer = await writer.answer(_SQL["redeliver"], tenant_id=tenant_id, id=delivery_id)
    if answer is None:
        standing = await writer.row(_SQL["standing"], tenant_id=tenant_id, ids=[delivery_id])
        if standing is None:
            raise DeliveryNotFound("There is no such delivery.", id=delivery_id)
        raise _refusal(standing)
    return answer


async def replay(
    writer: Writer, tenant_id: str, delivery_ids: Sequence[str]
) -> Mapping[str, AppError | tuple[str, Sequence[Key]]]:
    """Send deliveries that were given up again, whose dead letters the caller holds: itself for each, or why not."""
    moved = {row["id"] for row in await writer.rows(_SQL["replay"], tenant_id=tenant_id, ids=list(delivery_ids))}
    left = [delivery_id for delivery_id in delivery_ids if delivery_id not in moved]
    rows = await writer.rows(_SQL["standing"], tenant_id=tenant_id, ids=left) if left else []
    refused = {row["id"]: _refusal(row) for row in rows}
    gone = DeliveryGone("The delivery is no longer kept.")
    return {name: (name, (key_of(tenant_id),)) if name in moved else refused.get(name, gone) for name in delivery_ids}


def _refusal(standing: Any) -> AppError:
    facts = {"id": standing["id"], "webhook_id": standing["webhook_id"], "current_status": standing["status"]}
    if standing["status"] not in ("delivered", "dead"):
        return DeliveryUnderWay("The delivery is under way; wait until it has ended.", **facts)
    if not standing["has_endpoint"]:
        return EndpointGone("The webhook was deleted; nothing can be sent to it.", **facts)
    if not standing["enabled"]:
        return EndpointDisabled("The webhook is disabled; enable it first.", **facts)
    if not standing["sendable"]:
        return EventGone("The event is older than what is kept, and its body was not kept.", **facts)
    # It was in another state a moment ago.
    return DeliveryUnderWay("The delivery is changing; try again.", **facts)
