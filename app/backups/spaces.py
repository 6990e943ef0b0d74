"""What a restore does for memory alone: its spaces have partitions, and its items lie in each space that there is."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from app.backups.fates import CHANGED, NEW, OTHER_SPACES, Counts
from app.backups.staged import Staged
from app.db.sql import touched
from app.memory.partitions import creation, table_of

# Whoever writes memory of the tenant, or changes its spaces, waits until the commit.
ALONE = "SELECT cairn_change_spaces($1)"
# In spaces that the file does not have, a changed item has no embedding until somebody makes one.
STALE_VECTORS = (
    "UPDATE memory_vectors AS v SET embedding = NULL, metadata = i.metadata, session_id = i.session_id,"
    " invocation_id = i.invocation_id, expires_at = i.expires_at, lexemes = cairn_lexemes(p.language, i.content)"
    " FROM {rows} JOIN memory_items AS i ON i.tenant_id = $1 AND i.kind = r.kind AND i.id = r.id"
    " CROSS JOIN memory_spaces AS p WHERE {where} AND p.tenant_id = $1 AND p.name <> ALL ($2)"
    " AND v.tenant_id = $1 AND v.space_number = p.number AND v.kind = i.kind AND v.id = i.id"
)
# There new items lie without one, like any item that is remembered while nobody embeds: words find them.
WAITING_VECTORS = (
    "INSERT INTO memory_vectors (tenant_id, space_number, kind, id, lexemes, metadata, session_id, invocation_id,"
    " expires_at) SELECT $1, p.number, i.kind, i.id, cairn_lexemes(p.language, i.content), i.metadata, i.session_id,"
    " i.invocation_id, i.expires_at FROM {rows} JOIN memory_items AS i ON i.tenant_id = $1 AND i.kind = r.kind"
    " AND i.id = r.id CROSS JOIN memory_spaces AS p WHERE {where} AND p.tenant_id = $1 AND p.name <> ALL ($2)"
    " AND (p.active OR p.filling)"
)


class Spaces:
    """The spaces of one tenant while one file is written into it, in the transaction of the caller."""

    def __init__(self, connection: asyncpg.Connection, tenant_id: str, staged: Mapping[str, Staged]) -> None:
        self._connection, self._tenant_id, self._staged = connection, tenant_id, staged
        # Dimensions by number.
        self._new: dict[int, int] = {}

    async def alone(self) -> None:
        """Let nobody else write memory of the tenant from here on, where the file has any."""
        if "memory_items" in self._staged or "memory_spaces" in self._staged:
            await self._connection.execute(ALONE, self._tenant_id)

    async def make(self, staged: Staged) -> None:
        """Make partitions of the new spaces, which `attach` attaches: until then nobody waits for them."""
        found = await self._connection.fetch(
            f"SELECT t.number, t.dimensions FROM {staged.source()}"
            " JOIN memory_spaces AS t ON t.tenant_id = $1 AND t.name = r.name"
            f" WHERE {NEW.format(fates=staged.fates)}",
            self._tenant_id,
        )
        for number, dimensions in found:
            self._new[number] = dimensions
            for sql in creation(number, dimensions)[:-1]:
                await self._connection.execute(sql)

    async def lay(self, staged: Staged) -> int:
        """Insert the new vectors of the file, each into the partition of its space; how many."""
        where, numbers = NEW.format(fates=staged.fates), list(self._new)
        done = 0
        for number in numbers:
            sql = staged.section.insert(
                staged.table, staged.columns, f"{where} AND memory_spaces.number = {number}", into=table_of(number)
            )
            done += touched(await self._connection.execute(sql, self._tenant_id))
        known = f"{where} AND memory_spaces.number <> ALL (ARRAY[{', '.join(map(str, numbers))}]::bigint[])"
        sql = staged.section.insert(staged.table, staged.columns, known)
        return done + touched(await self._connection.execute(sql, self._tenant_id))

    async def find_in_others(self, items: Staged, counts: Counts) -> None:
        """Let items that were written be found in spaces of the tenant that the file does not have."""
        names, spaces = list[str](), self._staged.get("memory_spaces")
        if spaces is not None:
            others = OTHER_SPACES.format(rows=spaces.source())
            named = await self._connection.fetch(
                f"SELECT r.name FROM {spaces.source()} EXCEPT {others}", self._tenant_id
            )
            names = [row["name"] for row in named]
        for sql, where, rows in (
            (STALE_VECTORS, CHANGED, counts.changed),
            (WAITING_VECTORS, NEW, counts.created),
        ):
            if rows:
                text = sql.format(rows=items.source(), where=where.format(fates=items.fates))
                await self._connection.execute(text, self._tenant_id, names)

    async def attach(self) -> None:
        """Attach the partitions of new spaces: who makes or drops another space waits from here to the commit."""
        for number, dimensions in self._new.items():
            await self._connection.execute(creation(number, dimensions)[-1])
