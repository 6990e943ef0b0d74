"""Collections of documents in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from app.db.database import Answer, Reader, Writer
from app.db.integrity import IN_THE_WAY
from app.db.page import Listing, Sort
from app.db.shape import Shape, computed, instant, instant_sql, plain, stored_bytes
from app.db.sql import load
from app.documents.errors import CollectionNotFound
from app.documents.rules import indexed
from app.documents.secrecy import below, secret_paths
from app.errors import Unavailable, changed

CUT_KIND = "documents.cut"
# What one step cuts, and what one statement removes: rows, and bytes of bodies.
ROWS_MAX, BYTES_MAX = 200, 16 * 1024 * 1024
REMOVED_MAX = 1000
# Deliveries that one step looks at: most of them show no document.
DELIVERIES_MAX = 5000
# What takes more steps than these is left to a job.
STEPS_AT_ONCE = 8
TRIES = 3

COLLECTION = Shape(
    "name",
    "secret_paths",
    "history",
    plain("cutting", "uncut"),
    computed(
        "document_count",
        "(SELECT count(*) FROM documents AS d WHERE d.tenant_id = {t}.tenant_id AND d.collection = {t}.name"
        " AND (d.expires_at IS NULL OR d.expires_at > clock_timestamp()))",
    ),
    instant("created_at"),
    instant("updated_at"),
)
COLLECTIONS = Listing(
    "document collections",
    "document_collections AS t",
    COLLECTION,
    sorts={"name": Sort("{t}.name", "text")},
    default=("name", "asc"),
    ids=("t.name",),
)
_SQL = load(
    __file__,
    "collection_queries.sql",
    collection=COLLECTION.json("t"),
    created_at=instant_sql("c.created_at"),
    size=stored_bytes("t.body"),
)


@dataclass(frozen=True)
class Cut:
    """The bodies of a collection that are still to be cut: documents after a position, then revisions after a key, then
    deliveries of the tenant after an id.
    """

    tenant_id: str
    collection: str
    secret_paths: tuple[str, ...]
    created_at: str
    after: int = -1
    after_id: str | None = None
    after_revision: int = 0
    after_delivery: str | None = None

    def arguments(self) -> dict[str, Any]:
        """What a job needs to begin it."""
        return {
            "collection": self.collection,
            "secret_paths": list(self.secret_paths),
            "created_at": self.created_at,
        }

    def place(self) -> dict[str, Any]:
        """Where it stands, from where a job goes on."""
        return {
            "after": self.after,
            "after_id": self.after_id,
            "after_revision": self.after_revision,
            "after_delivery": self.after_delivery,
        }


class _Data(msgspec.Struct):
    collection: str


class _Delivered(msgspec.Struct):
    """What a webhook is told of a document, as far as it says which."""

    data: _Data

    @classmethod
    def of(cls, body: bytes) -> str:
        """Of which collection the document is."""
        return msgspec.json.decode(body, type=cls).data.collection


async def get(reader: Reader, tenant_id: str, name: str) -> Answer:
    """The collection. Raises `CollectionNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, name=name)
    if row is None:
        raise not_found(name)
    return Answer(200, row["body"], row["revision"])


def not_found(name: str) -> CollectionNotFound:
    """The refusal for a collection that is not there."""
    return CollectionNotFound("There is no such collection.", name=name)


async def put(
    transaction: Writer,
    tenant_id: str,
    name: str,
    given: dict[str, Any],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> tuple[Answer, Cut | None]:
    """Make a collection, or change the rules that are given; in a transaction. Raises `PreconditionFailed`.

    Where what is stored has still to be cut, and is too much for one step, what is to be done is given with the answer.
    """
    key = {"tenant_id": tenant_id, "name": name}
    fields = {"secret_paths": given.get("secret_paths", []), "history": given.get("history", 0)}
    for _ in range(TRIES):
        made = await transaction.row(_SQL["make"], **key, **fields) if may_create else None
        held = await transaction.row(_SQL["lock"], **key)
        if held is not None:
            break
        if not may_create:
            raise changed("collection", None)
    else:
        raise Unavailable(IN_THE_WAY)
    if made is not None:
        return replace(await get(transaction, tenant_id, name), status=201), None
    if if_match is not None and held["revision"] not in if_match:
        raise changed("collection", held["revision"])
    added = set(fields["secret_paths"]) - set(held["secret_paths"])
    # Whatever was not settled is begun again: the job that was to do it may be no more.
    uncut = bool(added) or (held["uncut"] and "secret_paths" in given)
    named = {f"set_{field}": field in given for field in fields}
    await transaction.row(_SQL["change"], **key, **fields, **named, uncut=uncut)
    left: Cut | None = None
    if uncut:
        # Also by the paths that were named before, which are not settled either.
        paths = tuple(dict.fromkeys([*fields["secret_paths"], *(held["secret_paths"] if held["uncut"] else ())]))
        begun = left = Cut(tenant_id, name, paths, held["created_at"])
        for _ in range(STEPS_AT_ONCE):
            _, left = await cut_step(transaction, left)
            if left is None:
                break
        left = None if left is None else begun
    return await get(transaction, tenant_id, name), left


async def cut_step(transaction: Writer, cut: Cut) -> tuple[int, Cut | None]:
    """Cut some of what is left: how many rows were looked at, and what is left now; None where all is done.

    Revisions come after all documents: by then, whoever keeps one keeps a body that is cut. Deliveries come last.
    """
    key = {"tenant_id": cut.tenant_id, "name": cut.collection}
    if await transaction.row(_SQL["is_there"], **key, created_at=cut.created_at) is None:
        return 0, None
    if cut.after_id is None:
        return await _cut_documents(transaction, cut, key)
    if cut.after_delivery is None:
        return await _cut_revisions(transaction, cut, key)
    return await _cut_deliveries(transaction, cut, key)


async def _cut_documents(transaction: Writer, cut: Cut, key: dict[str, str]) -> tuple[int, Cut | None]:
    paths = secret_paths(cut.secret_paths)
    rows = await transaction.rows(_SQL["documents_after"], **key, after=cut.after, limit=ROWS_MAX, bytes_max=BYTES_MAX)
    for row in rows:
        body = paths.cut(row["body"])
        if body is not row["body"]:
            again = indexed(cut.tenant_id, cut.collection, body)
            await transaction.row(_SQL["cut_document"], **key, id=row["id"], body=body, indexed=again)
    return len(rows), replace(cut, after=rows[-1]["position"]) if rows else replace(cut, after_id="")


async def _cut_revisions(transaction: Writer, cut: Cut, key: dict[str, str]) -> tuple[int, Cut | None]:
    paths = secret_paths(cut.secret_paths)
    at = {"after_id": cut.after_id, "after_revision": cut.after_revision}
    rows = await transaction.rows(_SQL["revisions_after"], **key, **at, limit=ROWS_MAX, bytes_max=BYTES_MAX)
    for row in rows:
        body = paths.cut(row["body"])
        if body is not row["body"]:
            await transaction.row(_SQL["cut_revision"], **key, id=row["id"], revision=row["revision"], body=body)
    if rows:
        return len(rows), replace(cut, after_id=rows[-1]["id"], after_revision=rows[-1]["revision"])
    return 0, replace(cut, after_delivery="")


async def _cut_deliveries(transaction: Writer, cut: Cut, key: dict[str, str]) -> tuple[int, Cut | None]:
    """What was put together for webhooks that include bodies, whatever became of it."""
    paths = below("data/body", cut.secret_paths)
    at = {"tenant_id": cut.tenant_id, "after_delivery": cut.after_delivery}
    rows = await transaction.rows(_SQL["deliveries_after"], **at, limit=DELIVERIES_MAX, bytes_max=BYTES_MAX)
    for row in rows:
        if row["body"] is not None and _Delivered.of(row["body"]) == cut.collection:
            body = paths.cut(row["body"])
            if body is not row["body"]:
                await transaction.row(_SQL["cut_delivery"], tenant_id=cut.tenant_id, id=row["id"], body=body)
    if rows:
        return len(rows), replace(cut, after_delivery=rows[-1]["id"])
    await transaction.row(_SQL["settle"], **key, secret_paths=list(cut.secret_paths))
    return 0, None


async def delete(transaction: Writer, tenant_id: str, name: str, if_match: list[int] | None) -> int:
    """Delete a collection with its documents, in bounded statements of one transaction; how many there were.

    Raises `CollectionNotFound`, `PreconditionFailed`.
    """
    key = {"tenant_id": tenant_id, "name": name}
    held = await transaction.row(_SQL["lock"], **key)
    if held is None:
        raise not_found(name)
    if if_match is not None and held["revision"] not in if_match:
        raise changed("collection", held["revision"])
    deleted = 0
    while True:
        row = await transaction.row(_SQL["remove"], **key, limit=REMOVED_MAX)
        removed = 0 if row is None else int(row["removed"])
        deleted += removed
        if removed == 0:
            break
    await transaction.row(_SQL["remove_collection"], **key)
    return deleted
