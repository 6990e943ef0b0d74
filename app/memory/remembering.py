"""Remembers, reads and changes items by the spaces as this process knows them, and again where they are others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.integrity import IN_THE_WAY
from app.db.sql import Statement
from app.embeddings.embedder import Embedder, EmbedderRefused, EmbedderUnavailable
from app.errors import AppError, PersistenceError, Unavailable, changed
from app.http.problems import problem_within
from app.memory.errors import MemoryItemConflict, MemorySpaceMissing
from app.memory.held_spaces import HeldSpaces, Spaces, active_of, known
from app.memory.item_sql import CONFLICT, change_sql, create_sql, get_sql
from app.memory.item_store import not_found, purge_of
from app.memory.partitions import names_a_dropped_one
from app.memory.preparing import Item, prepared

# Each finds that the spaces have changed since the one before: who changes them again and again is outlasted.
TRIES = 10
FIELDS = ("content", "metadata", "session_id", "invocation_id", "expires_at")


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
            items = await self._prepared(writer, embedder, tenant_id, spaces, made)
            if items is None:
                continue
            if not many and items[0].problem is not None:
                raise items[0].problem
            answer = await self._stored(writer, tenant_id, kind, spaces, items, many=many)
            if answer is not None:
                return answer
            if spaces == await self.held.again(writer, tenant_id):
                await self._make_way(writer, tenant_id, kind, items, many=many)
        raise Unavailable(IN_THE_WAY)

    async def _prepared(
        self,
        writer: Writer,
        embedder: Embedder | None,
        tenant_id: str,
        spaces: Spaces,
        given: Sequence[Mapping[str, Any] | AppError],
    ) -> list[Item] | None:
        """The items as they are written, or what is wrong with them; None where that was about spaces as they were.

        Raises `EmbedderUnavailable`, `EmbedderRefused`.
        """
        try:
            items = await prepared(embedder, tenant_id, spaces, given, self.content_bytes_max)
        except (EmbedderUnavailable, EmbedderRefused):
            # The model that was asked for may be that of a space which others have replaced.
            if spaces == await self.held.again(writer, tenant_id):
                raise
            return None
        if any(item.problem for item in items) and spaces != await self.held.again(writer, tenant_id):
            return None
        return items

    async def _stored(
        self, writer: Writer, tenant_id: str, kind: str, spaces: Spaces, items: list[Item], *, many: bool
    ) -> Answer | None:
        named = {number for item in items for number in item.vectors}
        targets = [space for space in spaces if space.written or space.number in named]
        stored = [item if item.problem is None else Item({}, problem=item.problem) for item in items]
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

    async def _make_way(self, writer: Writer, tenant_id: str, kind: str, items: list[Item], *, many: bool) -> None:
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
            whole = {"content": row["content"], **given, "id": item_id}
            items = await self._prepared(writer, embedder if reworded else None, tenant_id, spaces, [whole])
            if items is None:
                continue
            (item,) = items
            if item.problem is not None:
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
        item: Item,
        given: Mapping[str, Any],
        revision: int,
        reworded: bool,
    ) -> Answer | None:
        targets = [space for space in spaces if space.written or space.number in item.vectors]
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


async def _answer(writer: Writer, statement: Statement, **arguments: Any) -> Answer | None:
    """The answer of a statement; None too where a partition that it names is not there any more."""
    try:
        return await writer.answer(statement, **arguments)
    except PersistenceError as error:
        if names_a_dropped_one(error):
            return None
        raise


def _problem(item: Item, place: int) -> bytes | None:
    if item.problem is None:
        return None
    if item.id is not None:
        item.problem.facts.setdefault("id", item.id)
    return problem_within(item.problem, f"/items/{place}")
