"""Contexts in SQL: one row for each, so that data, summary and metadata change together or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any, TypeAlias

import asyncpg

from app.artifacts import store as artifacts
from app.artifacts.errors import ArtifactNotFound
from app.artifacts.store import Source
from app.blobs.blobs import Blobs
from app.contexts.errors import ContextConflict, ContextNotFound
from app.contexts.excerpt import LOOKED_AT_BYTES, excerpt_of
from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, instant_sql
from app.db.sql import Statement, load
from app.errors import PreconditionFailed, changed, invalid
from app.invocations import store as invocations

# Contexts that one statement looks at to remove them.
CLEARED_MAX = 1000
# What has expired is gone for everybody; a job only clears it away.
LIVE = "({t}.expires_at IS NULL OR {t}.expires_at > clock_timestamp())"
TOP = "\U0010ffff"

Stored: TypeAlias = asyncpg.Record

CONTEXT = Shape(
    "invocation_id",
    "scope",
    computed("node_id", "NULLIF({t}.node_id, '')"),
    "key",
    "summary",
    "summary_given",
    "metadata",
    "content_type",
    "size_bytes",
    computed("digest", "encode({t}.digest, 'hex')"),
    instant("expires_at"),
    instant("created_at"),
    instant("updated_at"),
)
CONTEXTS = Listing(
    "contexts",
    "contexts AS t",
    CONTEXT,
    # By scope, node and key: in the order of the primary key.
    sorts={"key": Sort("{t}.scope", "text")},
    default=("key", "asc"),
    filters={
        "invocation_id": f"t.invocation_id = :invocation_id AND {LIVE.replace('{t}', 't')}",
        "scope": "t.scope = :scope",
        "node_id": "t.node_id = :node_id",
        "pattern": r"t.key LIKE :pattern ESCAPE '\'",
        # What a pattern begins with, as the index finds it.
        "key_from": "t.key >= :key_from",
        "key_before": "t.key < :key_before",
    },
    ids=("t.scope", "t.node_id", "t.key"),
)

# What changes together, whatever writes a context.
_UNIT = (
    *("summary", "summary_given", "metadata", "content_type", "size_bytes", "digest", "data", "artifact_hash"),
    "expires_at",
)
_SQL = load(
    __file__,
    unit=", ".join(_UNIT),
    unit_given=", ".join(f":{name}" for name in _UNIT),
    unit_excluded=", ".join(f"excluded.{name}" for name in _UNIT),
    unit_shown=", ".join(f"c.{name}" for name in _UNIT if name != "data"),
    live=LIVE.replace("{t}", "c"),
    context=CONTEXT.json("c"),
    touched=artifacts.TOUCHED,
    **{name: instant_sql(f"c.{name}") for name in ("expires_at", "created_at", "updated_at")},
)


def conditions(given: dict[str, Any]) -> dict[str, Any]:
    """Scope, node and pattern as `CONTEXTS` takes them; a node that is null or empty is none."""
    found = {name: given[name] for name in ("scope", "pattern") if given.get(name) is not None}
    if "node_id" in given:
        found["node_id"] = given["node_id"] or ""
    pattern = found.get("pattern")
    if pattern is not None:
        found["pattern"] = _like(pattern)
        start = pattern.partition("*")[0].partition("?")[0]
        after = _after(start)
        if start:
            found["key_from"] = start
        if after:
            found["key_before"] = after
    return found


def _like(pattern: str) -> str:
    for special in "\\%_":
        pattern = pattern.replace(special, f"\\{special}")
    return pattern.replace("*", "%").replace("?", "_")


def _after(start: str) -> str:
    """The first text in byte order behind all that begin so; empty where there is none."""
    start = start.rstrip(TOP)
    if not start:
        return ""
    following = ord(start[-1]) + 1
    # The surrogates are no characters.
    return start[:-1] + chr(0xE000 if following == 0xD800 else following)


async def put(
    writer: Writer,
    key: dict[str, str],
    given: dict[str, Any],
    content_type: str,
    source: Source,
    *,
    large: bool,
    if_match: list[int] | None,
    may_create: bool,
    only_new: bool,
) -> Answer:
    """Store a context whole: 201 where there was none, 200 where it replaced one.

    `key` is the tenant and the four parts of the place. What is `large` is an artifact already, which the context holds
    from now on. Raises `InvocationNotFound`, `PreconditionFailed`.
    """
    summary = given.get("summary")
    start = b"" if large and summary is not None else await _start(source, None if not large else LOOKED_AT_BYTES)
    row = {
        "summary": excerpt_of(start[:LOOKED_AT_BYTES], source.size_bytes, content_type) if summary is None else summary,
        "summary_given": summary is not None,
        "metadata": (given.get("metadata") or "{}").encode(),
        "content_type": content_type,
        "size_bytes": source.size_bytes,
        "digest": source.digest,
        "data": None if large else start,
        "artifact_hash": source.digest if large else None,
        "expires_at": given.get("expires_at"),
    }

    async def why() -> None:
        standing = await writer.row(_SQL["standing"], **key)
        revision = None if standing is None else standing["revision"]
        if not may_create:
            if revision is None:
                await invocations.require(writer, key["tenant_id"], key["invocation_id"])
            if revision is None or (if_match is not None and revision not in if_match):
                raise changed("context", revision)
        if only_new and revision is not None:
            raise PreconditionFailed("The context is there already.", current_etag=f'"{revision}"')

    size = "_large" if large else ""
    if may_create:
        return await decided(writer, _SQL[f"put{size}"], why, only_new=only_new, **key, **row)
    return await decided(writer, _SQL[f"replace{size}"], why, only_new=only_new, if_match=if_match, **key, **row)


async def _start(source: Source, bytes_max: int | None) -> bytes:
    """The bytes, at least so many of them where there are; all unless told otherwise."""
    start = b""
    async for part in source.parts():
        start += part
        if bytes_max is not None and len(start) >= bytes_max:
            break
    return start


async def find(reader: Reader, key: dict[str, str], *, with_bytes: bool) -> Stored:
    """A context, with its bytes if told so. Raises `InvocationNotFound`, `ContextNotFound`."""
    row = await reader.row(_SQL["get"], with_bytes=with_bytes, **key)
    if row is None:
        raise await _absent(reader, key)
    return row


async def opened(
    reader: Reader, blobs: Blobs, tenant_id: str, stored: Stored, start: int, end: int
) -> bytes | AsyncIterator[bytes] | None:
    """The bytes of a context from `start` to before `end`; None where it must have been replaced, so that it is to be
    read again. Raises `ArtifactDamaged`, and `Unavailable` where the object store is away.
    """
    if stored["artifact_hash"] is None:
        data: bytes = stored["data"]
        return data[start:end]
    try:
        artifact = await artifacts.find(reader, tenant_id, stored["artifact_hash"])
        return await artifacts.opened(reader, blobs, tenant_id, artifact, start, end)
    except ArtifactNotFound:
        return None


async def _absent(reader: Reader, key: dict[str, str]) -> ContextNotFound:
    await invocations.require(reader, key["tenant_id"], key["invocation_id"])
    return ContextNotFound(
        "The invocation has no such context.", scope=key["scope"], node_id=key["node_id"] or None, key=key["key"]
    )


async def delete(writer: Writer, key: dict[str, str], if_match: list[int] | None) -> Answer:
    """Delete a context. Raises `InvocationNotFound`, `ContextNotFound`, `PreconditionFailed`."""

    async def why() -> None:
        standing = await writer.row(_SQL["standing"], **key)
        if standing is None:
            raise await _absent(writer, key)
        if if_match is not None and standing["revision"] not in if_match:
            raise changed("context", standing["revision"])

    return await decided(writer, _SQL["delete"], why, if_match=if_match, **key)


async def transfer(
    writer: Writer, source: dict[str, str], target: dict[str, Any], *, overwrite: bool, move: bool
) -> Answer:
    """Copy or move a context, as one unit: 201 where nothing was at the target, 200 where it was replaced.

    `target` has the parts of the place that are other than at the source. Raises `InvocationNotFound`,
    `ContextNotFound`, `ContextConflict`.
    """
    place = {**source, **{name: value or "" for name, value in target.items()}}
    if place == source:
        raise invalid("/target", "must be another place than the source")

    async def why() -> None:
        if await writer.row(_SQL["standing"], **source) is None:
            raise await _absent(writer, source)
        if not overwrite and await writer.row(_SQL["standing"], **place) is not None:
            raise ContextConflict(
                "The target is taken; it stays as it is. Ask for `overwrite` to replace it.",
                invocation_id=place["invocation_id"], scope=place["scope"], node_id=place["node_id"] or None,
                key=place["key"],
            )  # fmt: skip

    to = {f"to_{name}": value for name, value in place.items() if name != "tenant_id"}
    return await decided(writer, _SQL["move" if move else "copy"], why, overwrite=overwrite, **source, **to)


async def clear(transaction: Writer, tenant_id: str, invocation_id: str, given: dict[str, Any]) -> int:
    """Remove the contexts of an invocation that meet the conditions, in bounded statements; how many there were.

    Raises `InvocationNotFound`.
    """
    await invocations.require(transaction, tenant_id, invocation_id)
    found = {**conditions(given), "invocation_id": invocation_id}
    statement = _clear(frozenset(found))
    deleted: int = 0
    after = {"after_scope": "", "after_node_id": "", "after_key": ""}
    while True:
        row = await transaction.row(statement, tenant_id=tenant_id, limit=CLEARED_MAX, **found, **after)
        assert row is not None
        deleted += row["removed"]
        if row["last"] is None:
            return deleted
        after = dict(zip(after, row["last"], strict=True))


@lru_cache(maxsize=64)
def _clear(names: frozenset[str]) -> Statement:
    """Looks at so many contexts behind a place, and removes them; the place of the last, if there was any.

    The invocation, the contexts and what they refer to are locked in the order in which everybody does.
    """
    return Statement(
        "WITH within AS MATERIALIZED (SELECT i.id FROM invocations AS i WHERE i.tenant_id = :tenant_id"
        " AND i.id = :invocation_id FOR KEY SHARE), piece AS MATERIALIZED (SELECT t.scope, t.node_id, t.key"
        f" FROM contexts AS t WHERE EXISTS (SELECT FROM within) AND {CONTEXTS.where(names)}"
        " AND (t.scope, t.node_id, t.key) > (CAST(:after_scope AS text),"
        " CAST(:after_node_id AS text), CAST(:after_key AS text))"
        " ORDER BY t.scope, t.node_id, t.key LIMIT CAST(:limit AS bigint) FOR UPDATE), gone AS (DELETE FROM contexts"
        " AS c USING piece AS p WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id"
        " AND c.scope = p.scope AND c.node_id = p.node_id AND c.key = p.key"
        f" AND {LIVE.replace('{t}', 'c')} RETURNING c.artifact_hash), held AS MATERIALIZED ("
        " SELECT a.hash FROM artifacts AS a WHERE a.tenant_id = :tenant_id"
        " AND a.hash IN (SELECT artifact_hash FROM gone) ORDER BY a.hash FOR NO KEY UPDATE),"
        " freed AS (UPDATE artifacts AS a SET touched_at = clock_timestamp() FROM held AS h"
        " WHERE a.tenant_id = :tenant_id AND a.hash = h.hash)"
        " SELECT (SELECT count(*) FROM gone) AS removed, (SELECT ARRAY[p.scope, p.node_id, p.key] FROM piece AS p"
        " ORDER BY p.scope DESC, p.node_id DESC, p.key DESC LIMIT 1) AS last",
        "clear",
    )
