"""Remembers and changes items: finds the embedding that each space needs, then writes all in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.integrity import IN_THE_WAY
from app.db.sql import Statement
from app.embeddings.embedder import Embedder, EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.errors import AppError, InvalidInput, PersistenceError, Unavailable, changed, invalid
from app.http.problems import problem_within
from app.memory.embedding import vector_of
from app.memory.errors import EmbeddingFaulty, MemoryItemConflict, MemorySpaceMissing
from app.memory.item_sql import CONFLICT, change_sql, create_sql, get_sql
from app.memory.item_store import not_found, purge_of
from app.memory.partitions import names_a_dropped_one
from app.memory.space_store import HeldSpaces, Space, active_of, known, named_of

TRIES = 5
# Reading so many bytes of numbers is left to a thread.
THREAD_BYTES = 256 * 1024
FIELDS = ("content", "metadata", "session_id", "invocation_id", "expires_at")
Spaces = tuple[Space, ...]


@dataclass
class _Item:
    """An item of a call: what it is, its vector in each space, or the problem with it."""

    fields: Mapping[str, Any]
    id: str | None = None
    digest: bytes | None = None
    vectors: dict[int, bytes] = field(default_factory=dict)
    problem: AppError | None = None


class Memory:
    """What is remembered, for one process. `embedder` makes what does not come with a call."""

    def __init__(self, content_bytes_max: int) -> None:
        self.content_bytes_max = content_bytes_max
        self.held = HeldSpaces()

    async def remember(
        self,
        writer: Writer,
        embedder: Embedder | None,
        tenant_id: str,
        kind: str,
        given: Sequence[Mapping[str, Any] | AppError],
        *,
        many: bool,
    ) -> Answer:
        """Store items, each by itself where there are `many`: 201 if any is new, 207 if any was refused, else 200.

        Raises `MemorySpaceMissing`, `EmbedderUnavailable`, `EmbedderRefused`; for one item also what is wrong with it.
        """
        # An id stays the same, however often it is tried.
        made = [one if isinstance(one, AppError) else {**one, "id": one.get("id") or new_id("mem")} for one in given]
        for _ in range(TRIES):
            spaces = await self.held.of(writer, tenant_id)
            items = await self._prepared(embedder, tenant_id, spaces, made)
            if any(item.problem for item in items) and spaces != await self.held.again(writer, tenant_id):
                continue  # It may have been about spaces as they were.
            if not many and items[0].problem is not None:
                raise items[0].problem
            answer = await self._stored(writer, tenant_id, kind, spaces, items, many=many)
            if answer is not None:
                return answer
            if spaces == await self.held.again(writer, tenant_id):
                await self._make_way(writer, tenant_id, kind, items, many=many)
        raise Unavailable(IN_THE_WAY)

    async def _prepared(
        self, embedder: Embedder | None, tenant_id: str, spaces: Spaces, given: Sequence[Mapping[str, Any] | AppError]
    ) -> list[_Item]:
        size = sum(len(one.get("embedding") or b"") for one in given if not isinstance(one, AppError))
        if size > THREAD_BYTES:
            items = await asyncio.to_thread(self._read, spaces, given)
        else:
            items = self._read(spaces, given)
        if embedder is not None:
            for space in sorted(spaces, key=lambda space: not space.active):
                if space.active or space.filling:
                    await _embed(embedder, tenant_id, space, items)
        return items

    def _read(self, spaces: Spaces, given: Sequence[Mapping[str, Any] | AppError]) -> list[_Item]:
        items: list[_Item] = []
        ids: set[str] = set()
        for one in given:
            if isinstance(one, AppError):
                items.append(_Item({}, problem=one))
                continue
            item = _Item(one, one["id"])
            items.append(item)
            try:
                if item.id in ids:
                    raise invalid("/id", "is the id of an item before it")
                self.check_content(one["content"])
                sent = dict(one)
                if one.get("embedding") is not None:
                    space = named_of(spaces, one.get("space"))
                    sent["embedding"] = vector_of(one["embedding"], space.dimensions, space.metric)
                    item.vectors[space.number] = sent["embedding"]
                elif one.get("space") is not None:
                    named_of(spaces, one["space"])
                item.digest = digest_of(sent)
            except AppError as refusal:
                item.problem = refusal
            else:
                ids.add(one["id"])
        return items

    def check_content(self, content: str) -> None:
        """Raise `InvalidInput` for a content that is too large."""
        if len(content) * 4 > self.content_bytes_max and len(content.encode()) > self.content_bytes_max:
            raise invalid("/content", f"must have at most {self.content_bytes_max} bytes of UTF-8")

    async def _stored(
        self, writer: Writer, tenant_id: str, kind: str, spaces: Spaces, items: list[_Item], *, many: bool
    ) -> Answer | None:
        named = {number for item in items for number in item.vectors}
        targets = [space for space in spaces if space.active or space.filling or space.number in named]
        stored = [item if item.problem is None else _Item({}, problem=item.problem) for item in items]
        columns = {name: [item.fields.get(name) for item in stored] for name in FIELDS}
        return await _answer(
            writer,
            create_sql(tuple(space.number for space in targets), active_of(spaces).number, many=many),
            tenant_id=tenant_id,
            kind=kind,
            known=known(spaces),
            ids=[item.id for item in stored],
            contents=columns["content"],
            metadatas=columns["metadata"],
            session_ids=columns["session_id"],
            invocation_ids=columns["invocation_id"],
            expiries=columns["expires_at"],
            digests=[item.digest for item in stored],
            problems=[_problem(item, place) for place, item in enumerate(items)],
            **{f"embeddings_{s.number}": [item.vectors.get(s.number) for item in stored] for s in targets},
            **{f"language_{s.number}": s.language for s in targets},
        )

    async def _make_way(self, writer: Writer, tenant_id: str, kind: str, items: list[_Item], *, many: bool) -> None:
        """Remove what has expired under the ids. Raises `MemoryItemConflict` where the one id is another's."""
        ids = [item.id for item in items if item.problem is None and item.id is not None]
        if await purge_of(writer, tenant_id, kind, ids) or many:
            return
        row = await self._row(writer, tenant_id, kind, ids[0])
        if row is not None and row["digest"] != items[0].digest:
            raise MemoryItemConflict(CONFLICT, id=ids[0])

    async def get(self, reader: Reader, tenant_id: str, kind: str, item_id: str, *, embedding: bool = False) -> Answer:
        """The item. Raises `MemoryItemNotFound`."""
        row = await self._row(reader, tenant_id, kind, item_id, embedding=embedding)
        if row is None:
            raise not_found(kind, item_id)
        return Answer(200, row["body"], row["revision"])

    async def _row(
        self, reader: Reader, tenant_id: str, kind: str, item_id: str, *, embedding: bool = False
    ) -> asyncpg.Record | None:
        """The item beside what it has in the space that is active while it is read."""
        for _ in range(TRIES):
            try:
                active = active_of(await self.held.of(reader, tenant_id)).number
            except MemorySpaceMissing:
                return None  # Where there is no space, nothing has been remembered.
            try:
                row = await reader.row(get_sql(active, embedding=embedding), tenant_id=tenant_id, kind=kind, id=item_id)
            except PersistenceError as error:
                if not names_a_dropped_one(error):
                    raise
            else:
                if row is None or row["active"] == active:
                    return row
            await self.held.again(reader, tenant_id)
        raise Unavailable(IN_THE_WAY)

    async def change(
        self,
        writer: Writer,
        embedder: Embedder | None,
        tenant_id: str,
        kind: str,
        item_id: str,
        given: Mapping[str, Any],
        if_match: list[int] | None,
    ) -> Answer:
        """Change the fields given. Content that is another one is embedded anew, or loses its embedding everywhere.

        Raises `MemoryItemNotFound`, `PreconditionFailed`, and as `remember` does for one.
        """
        for _ in range(TRIES):
            row = await self._row(writer, tenant_id, kind, item_id)
            if row is None:
                raise not_found(kind, item_id)
            if if_match is not None and row["revision"] not in if_match:
                raise changed(kind, row["revision"])
            spaces = await self.held.of(writer, tenant_id)
            reworded = "content" in given and given["content"] != row["content"]
            item = self._read(spaces, [{"content": row["content"], **given, "id": item_id}])[0]
            if reworded and embedder is not None:
                for space in sorted(spaces, key=lambda space: not space.active):
                    if space.active or space.filling:
                        await _embed(embedder, tenant_id, space, [item])
            if item.problem is not None:
                if spaces != await self.held.again(writer, tenant_id):
                    continue
                raise item.problem
            answer = await self._changed(writer, tenant_id, kind, spaces, item, given, row["revision"], reworded)
            if answer is not None:
                return answer
            await self.held.again(writer, tenant_id)
        raise Unavailable(IN_THE_WAY)

    async def _changed(
        self,
        writer: Writer,
        tenant_id: str,
        kind: str,
        spaces: Spaces,
        item: _Item,
        given: Mapping[str, Any],
        revision: int,
        reworded: bool,
    ) -> Answer | None:
        targets = [space for space in spaces if space.active or space.filling or space.number in item.vectors]
        others = [space for space in spaces if space not in targets]
        statement = change_sql(
            tuple(space.number for space in targets),
            tuple(space.number for space in others),
            active_of(spaces).number,
        )
        return await _answer(
            writer,
            statement,
            tenant_id=tenant_id,
            kind=kind,
            id=item.id,
            revision=revision,
            known=known(spaces),
            reworded=reworded,
            **{name: given.get(name) for name in FIELDS},
            **{f"set_{name}": name in given for name in FIELDS},
            **{f"embedding_{space.number}": item.vectors.get(space.number) for space in targets},
            **{f"language_{space.number}": space.language for space in spaces},
        )


async def _embed(embedder: Embedder, tenant_id: str, space: Space, items: Sequence[_Item]) -> None:
    """Give each item its vector in a space, where it has none; in the active one, what has none is refused."""
    lacking = [item for item in items if item.problem is None and space.number not in item.vectors]
    if not lacking:
        return
    texts = [item.fields["content"] for item in lacking]
    try:
        found = await embedder.embed(tenant_id, space.model, space.dimensions, texts)
    except (EmbedderUnavailable, EmbedderRefused):
        if space.active:
            raise
        return  # Made later, by what fills the space.
    for item, one in zip(lacking, found, strict=True):
        try:
            item.vectors[space.number] = _vector(one, space)
        except EmbeddingFaulty as refusal:
            if space.active:
                item.problem = refusal


def _vector(found: list[float] | EmbeddingFault, space: Space) -> bytes:
    if isinstance(found, EmbeddingFault):
        raise EmbeddingFaulty(found.detail, space=space.name, reason=found.code, **found.facts)
    try:
        return vector_of(found, space.dimensions, space.metric)
    except InvalidInput as refusal:
        raise EmbeddingFaulty(refusal.detail, space=space.name, reason="embedding_unusable") from refusal


async def _answer(writer: Writer, statement: Statement, **arguments: Any) -> Answer | None:
    """The answer of a statement; None too where a partition that it names is not there any more."""
    try:
        return await writer.answer(statement, **arguments)
    except PersistenceError as error:
        if names_a_dropped_one(error):
            return None
        raise


def _problem(item: _Item, place: int) -> bytes | None:
    if item.problem is None:
        return None
    if item.id is not None:
        item.problem.facts.setdefault("id", item.id)
    return problem_within(item.problem, f"/items/{place}")
