"""Attachments in SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

import asyncpg

from app.attachments.errors import AttachmentConflict, AttachmentDamaged, AttachmentIntegrity, AttachmentNotFound
from app.contents import store as contents
from app.contents.store import Content, Source
from app.db.database import Answer, Reader, Writer
from app.db.integrity import IN_THE_WAY
from app.db.page import Listing, Sort
from app.db.race import TRIES
from app.db.shape import Shape, computed, instant, plain
from app.db.sql import load
from app.errors import PreconditionFailed, Unavailable, changed

# Attachments that one statement removes.
REMOVED_MAX = 500
SOURCE = (
    "(SELECT a.*, p.path, c.size_bytes AS content_bytes, c.digest AS content_digest, c.chunk_bytes"
    " FROM attachments AS a JOIN stream_paths AS p ON p.tenant_id = a.tenant_id AND p.number = a.path_number"
    " JOIN contents AS c ON c.tenant_id = a.tenant_id AND c.number = a.content_number) AS t"
)
ATTACHMENT = Shape(
    "path",
    "id",
    "conversation_id",
    "mime_type",
    plain("size", "content_bytes"),
    computed("digest", "encode({t}.content_digest, 'hex')"),
    "filename",
    instant("created_at"),
)
ATTACHMENTS = Listing(
    "attachments",
    SOURCE,
    ATTACHMENT,
    # By the number of the content, which grows with the time at which it was stored, and is one of a kind.
    sorts={"created_at": Sort("{t}.content_number", "bigint")},
    default=("created_at", "asc"),
    filters={
        "path": "t.path_number = (SELECT number FROM stream_paths WHERE tenant_id = :tenant_id AND path = :path)",
        "conversation_id": "t.conversation_id = :conversation_id",
        "digest": "encode(t.content_digest, 'hex') = :digest",
    },
)

_SQL = load(__file__, attachment=ATTACHMENT.json("t"), source=SOURCE)
_COMPARED = ("mime_type", "size", "digest", "conversation_id")


def check(given: dict[str, Any], source: Source) -> None:
    """Raise `AttachmentIntegrity` unless the bytes have the size and the digest that are given."""
    for reason, wanted, found in (
        ("size", given["size"], source.size_bytes),
        ("digest", given["digest"], source.digest.hex()),
    ):
        if wanted != found:
            raise AttachmentIntegrity(
                f"The {reason} of the bytes is {found}, not {wanted}; nothing was stored.",
                reason=reason, path=given["path"], id=given["id"], expected=wanted, found=found,
            )  # fmt: skip


async def put(
    transaction: Writer, tenant_id: str, given: dict[str, Any], source: Source, if_match: Collection[str] | None
) -> Answer:
    """Store an attachment: 201, or 200 as it is where the id has the same bytes, type and conversation.

    Raises `AttachmentConflict` where it has others, and `PreconditionFailed`.
    """
    key = {"tenant_id": tenant_id, "path": given["path"], "id": given["id"]}
    stored = await _found(transaction, key)
    if stored is not None:
        await transaction.row(_SQL["touch"], tenant_id=tenant_id, path=given["path"])
        stored = await _found(transaction, key)
    if stored is None:
        if if_match is not None:
            raise changed("attachment", None)
        # The bytes first, under a number of their own: nobody waits for them who puts the same attachment.
        number, created_at = await contents.write(transaction, tenant_id, source)
        fields = {name: given.get(name) for name in ("conversation_id", "mime_type", "filename")}
        for _ in range(TRIES):
            made = await transaction.row(_SQL["insert"], **key, **fields, content_number=number, created_at=created_at)
            stored = await _found(transaction, key)
            if stored is not None:
                break
        else:
            raise Unavailable(IN_THE_WAY)
        if made is not None:
            return Answer(201, stored["body"])
        await contents.remove(transaction, tenant_id, [number])
    _check_same(given, stored)
    if if_match is not None and tag_of(stored) not in if_match:
        raise PreconditionFailed("The attachment has another ETag.", current_etag=tag_of(stored))
    return Answer(200, stored["body"])


def _check_same(given: dict[str, Any], stored: asyncpg.Record) -> None:
    held = {**stored, "size": stored["content_bytes"], "digest": stored["content_digest"].hex()}
    differing = [name for name in _COMPARED if held[name] != given[name]]
    if differing:
        raise AttachmentConflict(
            f"The id has another {' and another '.join(differing)}; what came first stays.",
            path=given["path"], id=given["id"], differing=differing,
        )  # fmt: skip


async def _found(
    reader: Reader, key: dict[str, Any], conversation_id: str | None = None, *, with_bytes: bool = False
) -> asyncpg.Record | None:
    return await reader.row(_SQL["find"], **key, conversation_id=conversation_id, with_bytes=with_bytes)


async def find(reader: Reader, tenant_id: str, given: dict[str, Any], *, with_bytes: bool) -> asyncpg.Record:
    """An attachment, with its bytes where they fit one chunk. Raises `AttachmentNotFound`."""
    key = {"tenant_id": tenant_id, "path": given["path"], "id": given["id"]}
    stored = await _found(reader, key, given["conversation_id"], with_bytes=with_bytes)
    if stored is None:
        raise AttachmentNotFound("There is no such attachment under this path and in this conversation.", **given)
    return stored


def tag_of(stored: asyncpg.Record) -> str:
    """The strong ETag of an attachment's bytes: their digest."""
    return f'"{stored["content_digest"].hex()}"'


async def opened(
    reader: Reader, tenant_id: str, stored: asyncpg.Record, start: int, end: int
) -> bytes | AsyncIterator[bytes]:
    """The bytes from `start` to before `end`, whole or chunk by chunk. Raises `AttachmentDamaged`."""
    content = Content(
        stored["content_number"], stored["content_bytes"], stored["content_digest"], stored["chunk_bytes"]
    )
    if content.size_bytes <= content.chunk_bytes:
        whole: bytes = stored["bytes"] or b""
        if not content.is_true(whole):
            raise _damaged(stored)
        return whole[start:end]
    if not await contents.is_sound(reader, tenant_id, content, start, end):
        raise _damaged(stored)
    return contents.read(reader, tenant_id, content, start, end)


def _damaged(stored: asyncpg.Record) -> AttachmentDamaged:
    return AttachmentDamaged(
        "The stored bytes do not fit their size or digest; none of them is sent.", reason="chunks", id=stored["id"]
    )


async def delete(transaction: Writer, tenant_id: str, path: str) -> int:
    """Delete every attachment under a path, in bounded statements; how many there were."""
    deleted = 0
    while True:
        removed = await transaction.rows(_SQL["remove"], tenant_id=tenant_id, path=path, limit=REMOVED_MAX)
        if not removed:
            return deleted
        deleted += len(removed)
        await contents.remove(transaction, tenant_id, [row["content_number"] for row in removed])
