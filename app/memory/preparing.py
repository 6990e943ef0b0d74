"""Prepares items to be written: each gets its vector in every space that needs one, or the problem with it is known."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from app.db.digest import digest_of
from app.embeddings.embedder import Embedder, EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.errors import AppError, invalid
from app.memory.embedding import vector_of
from app.memory.held_spaces import Spaces, named_of
from app.memory.space_store import Space
from app.memory.vectors import made, refusal_of

log = structlog.get_logger("cairn.memory")

# Reading so many bytes of numbers is left to a thread.
THREAD_BYTES = 256 * 1024


@dataclass
class Item:
    """An item of a call: what it is, its vector in each space by its number, or the problem with it."""

    fields: Mapping[str, Any]
    id: str | None = None
    digest: bytes | None = None
    vectors: dict[int, bytes] = field(default_factory=dict)
    problem: AppError | None = None


async def prepared(
    embedder: Embedder | None,
    tenant_id: str,
    spaces: Spaces,
    given: Sequence[Mapping[str, Any] | AppError],
    content_bytes_max: int,
) -> list[Item]:
    """The items that are given, those that are refusals already among them; what lacks a vector is embedded.

    A fault in the active space is the item's problem; in another one it is made up for by what fills that. Raises
    `EmbedderUnavailable`, `EmbedderRefused`. No connection to the database may be held meanwhile.
    """
    size = sum(len(one.get("embedding") or b"") for one in given if not isinstance(one, AppError))
    if size > THREAD_BYTES:
        items = await asyncio.to_thread(_read, spaces, given, content_bytes_max)
    else:
        items = _read(spaces, given, content_bytes_max)
    if embedder is not None:
        for space in sorted(spaces, key=lambda space: not space.active):
            if space.written:
                await _embed(embedder, tenant_id, space, items)
    return items


def _read(spaces: Spaces, given: Sequence[Mapping[str, Any] | AppError], content_bytes_max: int) -> list[Item]:
    items: list[Item] = []
    ids: set[str] = set()
    for one in given:
        if isinstance(one, AppError):
            items.append(Item({}, problem=one))
            continue
        item = Item(one, one["id"])
        items.append(item)
        try:
            if one["id"] in ids:
                raise invalid("/id", "is the id of an item before it")
            _check_content(one["content"], content_bytes_max)
            _read_vector(spaces, item)
        except AppError as refusal:
            item.problem = refusal
        else:
            ids.add(one["id"])
    return items


def _read_vector(spaces: Spaces, item: Item) -> None:
    """Read the embedding that is given, and digest the item by what it means rather than by how it was written."""
    sent = dict(item.fields)
    if sent.get("embedding") is not None:
        space = named_of(spaces, sent.get("space"))
        sent["embedding"] = vector_of(sent["embedding"], space.dimensions, space.metric)
        item.vectors[space.number] = sent["embedding"]
    elif sent.get("space") is not None:
        named_of(spaces, sent["space"])
    item.digest = digest_of(sent)


def _check_content(content: str, bytes_max: int) -> None:
    # A character has at most four bytes, so most need not be encoded for this.
    if len(content) * 4 > bytes_max and len(content.encode()) > bytes_max:
        raise invalid("/content", f"must have at most {bytes_max} bytes of UTF-8")


async def _embed(embedder: Embedder, tenant_id: str, space: Space, items: Sequence[Item]) -> None:
    """Give each item its vector in a space, where it has none; in the active one, what has none is refused."""
    lacking = [item for item in items if item.problem is None and space.number not in item.vectors]
    if not lacking:
        return
    try:
        found = await made(embedder, tenant_id, space, [item.fields["content"] for item in lacking])
    except (EmbedderUnavailable, EmbedderRefused) as refusal:
        if space.active:
            raise
        _tell_left(tenant_id, space, len(lacking), refusal.detail)
        return
    faults = Counter[str]()
    for item, one in zip(lacking, found, strict=True):
        if not isinstance(one, EmbeddingFault):
            item.vectors[space.number] = one
        elif space.active:
            item.problem = refusal_of(one, space)
        else:
            faults[one.code] += 1
    if faults:
        _tell_left(tenant_id, space, faults.total(), dict(faults))


def _tell_left(tenant_id: str, space: Space, items: int, error: str | dict[str, int]) -> None:
    """Log what is written without its embedding in a space that is filling: `reembed` has to be asked again."""
    log.warning("left for the next reembed", tenant_id=tenant_id, space=space.name, items=items, error=error)
