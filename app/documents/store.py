"""Documents in SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import asyncpg

from app.db.database import Answer, Database, Reader, Writer
from app.db.integrity import IN_THE_WAY, lost_race
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, instant_sql, stored_bytes, verbatim
from app.db.sql import load
from app.documents import secrecy
from app.documents.errors import DocumentNotFound, DocumentNotObject
from app.documents.rules import Rules, prepared, rules_of
from app.documents.splicing import NotAnObject, Patch
from app.errors import PreconditionFailed, Unavailable, changed

TRIES = 4
# Bodies of this size are worked on beside the event loop.
THREAD_BYTES = 64 * 1024
LIVE = "(t.expires_at IS NULL OR t.expires_at > clock_timestamp())"

DOCUMENT = Shape(
    "collection",
    "id",
    "revision",
    computed("indexed", "({t}.indexed IS NOT NULL)"),
    instant("expires_at"),
    instant("created_at"),
    instant("updated_at"),
    verbatim("body"),
)
REVISION = Shape("revision", instant("stored_at"), verbatim("body"))
# What whoever reads with other things sees: nothing that is over, and no body that may still hold a secret.
SHOWN = (
    "(SELECT d.tenant_id, d.collection, d.id, CASE WHEN NOT c.uncut THEN d.body END AS body"
    " FROM documents AS d JOIN document_collections AS c ON c.tenant_id = d.tenant_id AND c.name = d.collection"
    " WHERE d.expires_at IS NULL OR d.expires_at > clock_timestamp())"
)
REVISIONS = Listing(
    "document revisions",
    "(SELECT r.* FROM document_revisions AS r"
    " JOIN documents AS d ON (d.tenant_id, d.collection, d.id) = (r.tenant_id, r.collection, r.id)"
    " JOIN document_collections AS c ON c.tenant_id = d.tenant_id AND c.name = d.collection"
    " WHERE r.revision >= d.revision - c.history AND (d.expires_at IS NULL OR d.expires_at > clock_timestamp())) AS t",
    REVISION,
    sorts={"revision": Sort("{t}.revision", "bigint")},
    default=("revision", "desc"),
    filters={"collection": "t.collection = :collection", "id": "t.id = :id"},
    ids=("t.id",),
    weights={"body": stored_bytes("t.body")},
)
_SQL = load(__file__, document=DOCUMENT.json("d"), created_at=instant_sql("c.created_at"))

# A revision was kept while its document was being removed: seen again, it is removed too.
lost_race("fk_document_revisions_tenant_id_collection_id")

Made = TypeVar("Made")
FindRules = Callable[[], Awaitable[Rules | None]]
# Does something in a transaction, which is tried again where others were in the way.
InTurn = Callable[[Callable[[Writer], Awaitable[Answer]]], Awaitable[Answer]]


@dataclass(frozen=True)
class Place:
    """Which document, and under which conditions it may be written."""

    tenant_id: str
    collection: str
    id: str
    if_match: list[int] | None = None
    may_create: bool = True
    only_new: bool = False

    @property
    def key(self) -> dict[str, Any]:
        """What names it in SQL."""
        return {"tenant_id": self.tenant_id, "collection": self.collection, "id": self.id}


@dataclass(frozen=True)
class _Standing:
    revision: int | None
    body: bytes | None
    is_over: bool
    rules: Rules | None


async def rules_text(reader: Reader, tenant_id: str, collection: str) -> bytes | None:
    """The rules of a collection as JSON, as `rules_of` reads them; None where there is no such collection."""
    row = await reader.row(_SQL["rules"], tenant_id=tenant_id, collection=collection)
    return None if row is None else row["rules"]


async def uncut(reader: Reader, tenant_id: str, collection: str) -> list[str] | None:
    """The secret paths by which a read cuts what is stored; None where all of it is cut already."""
    row = await reader.row(_SQL["rules"], tenant_id=tenant_id, collection=collection)
    return None if row is None else row["uncut"]


async def put(
    writer: Writer,
    place: Place,
    find_rules: FindRules,
    forget_rules: Callable[[], None],
    body: bytes,
    expires_at: datetime | None,
) -> Answer:
    """Store a body, by the rules as they are remembered: 201, or 200 where it replaces one. One statement as a rule.

    Where the rules are others by now, they are forgotten, and read again. Raises `PreconditionFailed`.
    """
    rules = await find_rules()
    for _ in range(TRIES):
        answer = await _write(writer, place, rules, body, expires_at, set_expires_at=True)
        if answer is not None:
            return answer
        current = (await _checked(writer, place)).rules
        if current != rules:
            forget_rules()
            rules = current
    raise Unavailable(IN_THE_WAY)


async def patch(
    writer: Writer, place: Place, change: Patch, expires_at: datetime | None, in_turn: InTurn | None
) -> Answer:
    """Merge a patch into what is stored, or into nothing: a read, and a write where nobody wrote between.

    Where others always did, `in_turn` gives a transaction that takes its turn; it is None where the writer is one.
    Raises `PreconditionFailed`, `DocumentNotObject`.
    """
    answer = await _patched(writer, place, change, expires_at, locked=in_turn is None)
    if answer is not None:
        return answer
    if in_turn is None:
        raise Unavailable(IN_THE_WAY)
    return await in_turn(lambda transaction: patch(transaction, place, change, expires_at, None))


async def _patched(
    writer: Writer, place: Place, change: Patch, expires_at: datetime | None, *, locked: bool
) -> Answer | None:
    for _ in range(TRIES):
        if locked:
            await writer.row(_SQL["lock"], **place.key)
        found = await _checked(writer, place)
        if found.body is None:
            merged = change.alone()
            as_read = Place(place.tenant_id, place.collection, place.id, None, place.may_create, only_new=True)
        else:
            merged = await _merged(place, change, found.body)
            assert found.revision is not None
            as_read = Place(place.tenant_id, place.collection, place.id, [found.revision], may_create=False)
        answer = await _write(writer, as_read, found.rules, merged, expires_at, set_expires_at=expires_at is not None)
        if answer is not None:
            return answer
    return None


async def _merged(place: Place, change: Patch, stored: bytes) -> bytes:
    try:
        return await _aside(len(stored) + len(change.text), partial(change.into, stored))
    except NotAnObject:
        raise DocumentNotObject(
            "What is stored is no JSON object; a shallow merge has nothing to merge into. PUT replaces it.",
            collection=place.collection, id=place.id,
        ) from None  # fmt: skip


async def _write(
    writer: Writer,
    place: Place,
    rules: Rules | None,
    body: bytes,
    expires_at: datetime | None,
    *,
    set_expires_at: bool,
) -> Answer | None:
    made = await _aside(len(body), partial(prepared, place.tenant_id, place.collection, rules, body))
    return await writer.answer(
        _SQL["put"],
        **place.key,
        rules_revision=None if rules is None else rules.revision,
        rules_created_at=None if rules is None else rules.created_at,
        body=made.body,
        indexed=made.indexed,
        expires_at=expires_at,
        set_expires_at=set_expires_at,
        if_match=place.if_match,
        may_create=place.may_create,
        only_new=place.only_new,
    )


async def _checked(writer: Reader, place: Place) -> _Standing:
    """What there is, with what is over removed. Raises `PreconditionFailed` where the conditions do not hold."""
    found = await _standing(writer, place)
    if found.is_over:
        await writer.rows(_SQL["remove_expired"], **place.key)
        found = _Standing(None, None, False, found.rules)
    if found.revision is not None and place.only_new:
        raise PreconditionFailed("The document is there already.", current_etag=f'"{found.revision}"')
    if place.if_match is not None and found.revision not in place.if_match:
        raise changed("document", found.revision)
    if found.revision is None and not place.may_create:
        raise changed("document", None)
    return found


async def _standing(reader: Reader, place: Place) -> _Standing:
    row = await reader.row(_SQL["standing"], **place.key)
    assert row is not None
    rules = None if row["rules"] is None else rules_of(row["rules"])
    return _Standing(row["revision"], row["body"], row["revision"] is not None and not row["live"], rules)


async def get(reader: Reader, tenant_id: str, collection: str, document_id: str) -> Answer:
    """The body of a document, byte for byte. Raises `DocumentNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, collection=collection, id=document_id)
    if row is None:
        raise not_found(collection, document_id)
    body = row["body"]
    if row["uncut"] is not None:
        body = await _aside(len(body), partial(secrecy.secret_paths(tuple(row["uncut"])).cut, body))
    return Answer(200, body, row["revision"])


async def require(reader: Reader, tenant_id: str, collection: str, document_id: str) -> None:
    """Raise `DocumentNotFound` where there is no such document."""
    if await reader.row(_SQL["is_there"], tenant_id=tenant_id, collection=collection, id=document_id) is None:
        raise not_found(collection, document_id)


async def delete(writer: Writer, place: Place) -> Answer:
    """Delete a document with its revisions. Raises `DocumentNotFound`, `PreconditionFailed`."""

    async def why() -> None:
        found = await _standing(writer, place)
        if found.revision is None or found.is_over:
            raise not_found(place.collection, place.id)
        if place.if_match is not None and found.revision not in place.if_match:
            raise changed("document", found.revision)

    return await decided(writer, _SQL["delete"], why, **place.key, if_match=place.if_match)


def not_found(collection: str, document_id: str) -> DocumentNotFound:
    """The refusal for a document that is not there."""
    return DocumentNotFound("There is no such document.", collection=collection, id=document_id)


async def without_secrets(items: Sequence[bytes], paths: Sequence[str]) -> list[bytes]:
    """Items that show a `body`, each without what lies at the paths there."""
    cut = secrecy.below("body", paths).cut
    return await _aside(sum(map(len, items)), lambda: [cut(item) for item in items])


async def _aside(size_bytes: int, work: Callable[[], Made]) -> Made:
    """Do work on so many bytes: a lot of them beside the event loop."""
    return await asyncio.to_thread(work) if size_bytes > THREAD_BYTES else work()


async def purge(database: Database, limit: int) -> int:
    """Remove documents whose time is over."""
    row: asyncpg.Record | None = await database.row(_SQL["purge"], limit=limit)
    return int(row["removed"]) if row is not None else 0
