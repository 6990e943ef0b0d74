"""Webhooks in SQL. What is secret comes sealed and is never read here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Column, Shape, computed, instant
from app.db.sql import load
from app.errors import changed
from app.events.reads import cursor_sql
from app.webhooks.errors import WebhookConflict, WebhookNotFound

IfMatch = list[int] | None

_AFTER, _WAS_AFTER = (cursor_sql("{t}.tenant_id", "{t}." + name) for name in ("after_position", "was_after_position"))
_MISSED = f"CASE WHEN NOT {{t}}.enabled THEN {_AFTER} END"
_MISSED_OR_WAS = f"CASE WHEN NOT {{t}}.enabled THEN {_AFTER} WHEN NOT {{t}}.was_enabled THEN {_WAS_AFTER} END"


def _shape(missed_after: str, *more: Column) -> Shape:
    return Shape(
        "id",
        "url",
        "event_types",
        "include",
        "description",
        "enabled",
        # The values are sealed; nobody is shown them.
        computed(
            "headers",
            "COALESCE((SELECT json_object_agg(names.name, NULL ORDER BY names.name)"
            " FROM unnest({t}.header_names) AS names (name)), '{}')",
        ),
        instant("disabled_at"),
        "disabled_reason",
        computed("missed_after", missed_after),
        instant("failing_since"),
        instant("previous_secret_until"),
        instant("created_at"),
        instant("updated_at"),
        *more,
    )


WEBHOOK = _shape(_MISSED)
# A webhook whose secret was just made: its place stays empty, so that a kept answer never holds it.
_WITH_SECRET = _shape(_MISSED, computed("secret", "CAST(NULL AS text)"))
# Of a row that also says what it was before.
_CHANGED = _shape(_MISSED_OR_WAS)
WEBHOOKS = Listing(
    "webhooks",
    "webhooks AS t",
    WEBHOOK,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "enabled": "t.enabled = :enabled",
        "failing": "(t.failing_since IS NOT NULL) = :failing",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
)
_SQL = load(
    __file__,
    webhook=WEBHOOK.json("t"),
    with_secret=_WITH_SECRET.json("t"),
    changed_webhook=_CHANGED.json("t"),
)


@dataclass(frozen=True)
class Sealed:
    """What is stored of a webhook's secrets: sealed bytes, and the names of its headers. None stays as it is."""

    secret: bytes | None = None
    headers: bytes | None = None
    header_names: Sequence[str] | None = None


async def create(
    writer: Writer, tenant_id: str, given: dict[str, Any], sealed: Sealed, digests: Sequence[bytes]
) -> Answer:
    """Make a webhook: 201, or 200 with the row as it now is where it was created with the same fields.

    The same fields have one of these digests; a new row keeps the first. Events after those that the tenant has now are
    for it. The answer's `secret` is null. Raises `WebhookConflict`.
    """
    webhook_id = given.get("id") or new_id("wh")

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=webhook_id)
        if stored is not None and bytes(stored["digest"]) not in digests:
            raise WebhookConflict("A webhook with this id was created with other fields.", id=webhook_id)

    return await decided(
        writer, _SQL["create"], why, tenant_id=tenant_id, id=webhook_id, digests=digests, url=given["url"],
        event_types=given.get("event_types", []), include=given.get("include", []),
        description=given.get("description"), enabled=given.get("enabled", True), secret=sealed.secret,
        headers=sealed.headers, header_names=sealed.header_names or [],
    )  # fmt: skip


async def patch(
    writer: Writer, tenant_id: str, webhook_id: str, given: dict[str, Any], sealed: Sealed, if_match: IfMatch
) -> Answer:
    """Change the fields given. Raises `WebhookNotFound`, `PreconditionFailed`."""
    return await decided(
        writer, _SQL["patch"], _why(writer, tenant_id, webhook_id, if_match), tenant_id=tenant_id, id=webhook_id,
        if_match=if_match, url=given.get("url"), event_types=given.get("event_types"), include=given.get("include"),
        description=given.get("description"), set_description="description" in given, enabled=given.get("enabled"),
        headers=sealed.headers, set_headers="headers" in given, header_names=sealed.header_names,
    )  # fmt: skip


async def enable(writer: Writer, tenant_id: str, webhook_id: str, if_match: IfMatch) -> Answer:
    """Let events be sent to it again, from now on; one that is enabled stays as it is.

    Raises `WebhookNotFound`, `PreconditionFailed`.
    """
    why = _why(writer, tenant_id, webhook_id, if_match)
    return await decided(writer, _SQL["enable"], why, tenant_id=tenant_id, id=webhook_id, if_match=if_match)


async def rotate(
    writer: Writer, tenant_id: str, webhook_id: str, secret: bytes, overlap_seconds: float, if_match: IfMatch
) -> Answer:
    """Replace the sealed secret; the old one signs too for so long. Raises `WebhookNotFound`, `PreconditionFailed`."""
    return await decided(
        writer, _SQL["rotate"], _why(writer, tenant_id, webhook_id, if_match), tenant_id=tenant_id, id=webhook_id,
        secret=secret, overlap_seconds=overlap_seconds, if_match=if_match,
    )  # fmt: skip


async def delete(writer: Writer, tenant_id: str, webhook_id: str, if_match: IfMatch) -> Answer:
    """Remove a webhook; its deliveries stay. Raises `WebhookNotFound`, `PreconditionFailed`."""
    why = _why(writer, tenant_id, webhook_id, if_match)
    return await decided(writer, _SQL["delete"], why, tenant_id=tenant_id, id=webhook_id, if_match=if_match)


async def get(reader: Reader, tenant_id: str, webhook_id: str) -> Answer:
    """The webhook. Raises `WebhookNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=webhook_id)
    if row is None:
        raise WebhookNotFound("There is no such webhook.", id=webhook_id)
    return Answer(200, row["body"], row["revision"])


def _why(writer: Writer, tenant_id: str, webhook_id: str, if_match: IfMatch) -> Callable[[], Awaitable[None]]:
    """Looks why a webhook was not changed. It finds nothing where one was made a moment ago: that one is changed."""

    async def why() -> None:
        current = await get(writer, tenant_id, webhook_id)
        if if_match is not None and current.etag not in if_match:
            raise changed("webhook", current.etag)

    return why
