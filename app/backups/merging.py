"""Writes the staged rows of a backup into a tenant, all of them in the transaction of the caller, or finds what
would become of them.

Everything is one statement for each section, in the order in which rows refer to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import asyncpg

from app.backups.ancestry import has_cycle
from app.backups.errors import BackupRefused
from app.backups.fates import BACK, CHANGED, EVENTS, NEW, Counts, Fates, Mode, OnConflict
from app.backups.secrets import cut_later
from app.backups.section import Section
from app.backups.sections import sections
from app.backups.spaces import Spaces
from app.backups.staged import Staged
from app.db.sql import touched

# Keys of rows that are left out, and that are not there either: nothing that is written may name them.
ABSENT = (
    "SELECT r.\"{of}\" FROM {rows} JOIN {fates} AS f ON f.line = s.line WHERE f.fate IN ('taken', 'without')"
    ' AND NOT EXISTS (SELECT FROM {table} AS h WHERE h.tenant_id = $1 AND h."{of}" = r."{of}")'
)
# What is there and what was put there for this restore is live, held until the commit, and as old as the file says.
ARTIFACTS = (
    "UPDATE artifacts AS a SET state = 'live', touched_at = clock_timestamp(),"
    " changed_at = CASE a.state WHEN 'live' THEN a.changed_at ELSE clock_timestamp() END,"
    " created_at = CASE a.state WHEN 'uploading' THEN r.created_at ELSE a.created_at END"
    " FROM {rows} WHERE a.tenant_id = $1 AND a.hash = r.hash AND a.state IN ('live', 'marked', 'uploading')"
)
TOKENS = (
    "UPDATE leases AS t SET fencing_token = r.fencing_token FROM {rows}"
    " WHERE t.tenant_id = $1 AND t.name = r.name AND t.fencing_token < r.fencing_token"
)
HEAD = (
    "INSERT INTO event_heads AS h (tenant_id, position, earliest)"
    " SELECT $1, GREATEST(r.position, (SELECT max(position) FROM events WHERE tenant_id = $1)), r.earliest FROM {rows}"
    " ON CONFLICT (tenant_id) DO UPDATE SET position = excluded.position, earliest = excluded.earliest"
)
# No webhook is told of what was restored: neither of events that came with it, nor of those before.
WEBHOOK_HEAD = (
    "INSERT INTO webhook_heads AS w (tenant_id, position)"
    " SELECT h.tenant_id, h.position FROM event_heads AS h WHERE h.tenant_id = $1"
    " AND EXISTS (SELECT FROM webhooks AS n WHERE n.tenant_id = h.tenant_id)"
    " ON CONFLICT (tenant_id) DO UPDATE SET position ="
    " CASE WHEN CAST($2 AS boolean) THEN excluded.position ELSE w.position END"
)


class Interfered(Exception):
    """Not as many rows of a section were written as were to be: somebody else wrote meanwhile, or they name nothing."""

    def __init__(self, section: str) -> None:
        super().__init__(section)
        self.section = section


@dataclass(frozen=True)
class Outcome:
    """What became of the rows of each section."""

    sections: dict[str, Counts]

    @property
    def conflicts(self) -> int:
        """How many rows stand in the way of a restore that is to fail by them."""
        return sum(counts.conflicts for counts in self.sections.values())

    def shown(self) -> dict[str, object]:
        """As JSON."""
        return {name: counts.shown() for name, counts in self.sections.items()}


class Merging:
    """One tenant and one file that is staged on the connection; `decided` is what was found to become of each row."""

    def __init__(
        self, connection: asyncpg.Connection, tenant_id: str, staged: Mapping[str, Staged], mode: Mode,
        on_conflict: OnConflict,
    ) -> None:  # fmt: skip
        self._connection, self._tenant_id, self._staged = connection, tenant_id, staged
        self._overwrite = on_conflict == "overwrite"
        self._emptied = _emptied(staged) if mode == "replace" else ()
        self._spaces = Spaces(connection, tenant_id, staged)
        self.decided: Outcome | None = None

    async def decide(self) -> Outcome:
        """What would become of every row, in a transaction of the caller. Nothing is written.

        Raises `MemorySpacesFull`.
        """
        emptied = frozenset(section.name for section in self._emptied)
        fates = Fates(self._connection, self._tenant_id, self._staged, overwrite=self._overwrite, emptied=emptied)
        found = {name: await fates.decide(staged) for name, staged in self._staged.items()}
        for section in self._emptied:
            counts = found.get(section.name, Counts(0, 0, 0, 0, 0))
            removed = await self._connection.fetchval(
                f"SELECT count(*) FROM {section.table} WHERE tenant_id = $1", self._tenant_id
            )
            if removed or section.name in found:
                found[section.name] = replace(counts, removed=removed)
        self.decided = Outcome(found)
        return self.decided

    async def alone(self) -> None:
        """Let nobody else write of it what cannot be decided anew, until the transaction of the caller is over."""
        await self._spaces.alone()

    async def write(self, outcome: Outcome) -> None:
        """Write what was decided in the same transaction.

        Raises `Interfered`, and `BackupRefused` where a row descends from itself together with others.
        """
        await self._empty()
        for name, staged in self._staged.items():
            await self._section(staged, outcome.sections[name])
        await self._settle(outcome)

    async def _empty(self) -> None:
        for section in self._emptied:
            for field in section.fields:
                if field.late:
                    await self._connection.execute(
                        f'UPDATE {section.table} SET "{field.column}" = NULL WHERE tenant_id = $1', self._tenant_id
                    )
        for section in reversed(self._emptied):
            # Those of a space lie in its partition, which is dropped when nobody reads it any more.
            if section.name != "memory_vectors":
                for table in (section.table, *section.also):
                    await self._connection.execute(f"DELETE FROM {table} WHERE tenant_id = $1", self._tenant_id)

    async def _section(self, staged: Staged, counts: Counts) -> None:
        name = staged.section.name
        if name == "artifacts":
            await self._expect(staged, ARTIFACTS.format(rows=staged.source()), staged.rows)
        elif name == "event_heads":
            if counts.created:
                await self._connection.execute(HEAD.format(rows=staged.source()), self._tenant_id)
        else:
            if name == "leases":
                await self._connection.execute(TOKENS.format(rows=staged.source()), self._tenant_id)
            await self._clear(staged)
            # A row that is changed may refer to a new one of its section.
            await self._create(staged, counts)
            await self._change(staged, counts)
            await self._bring_back(staged, counts)

    async def _bring_back(self, staged: Staged, counts: Counts) -> None:
        """Content that what is there has lost since."""
        back = await self._fated(staged, "back") if counts.changed else 0
        if back:
            where = BACK.format(fates=staged.fates)
            await self._expect(staged, staged.section.brings_back.format(rows=staged.source(), where=where), back)

    async def _fated(self, staged: Staged, fate: str) -> int:
        found: int = await self._connection.fetchval(f"SELECT count(*) FROM {staged.fates} WHERE fate = $1", fate)
        return found

    async def _change(self, staged: Staged, counts: Counts) -> None:
        """Rows that are there as others, where those of the file are wanted."""
        if not counts.changed or not staged.section.changes:
            return
        changed = await self._fated(staged, "differs") if self._overwrite else 0
        update = staged.section.update(staged.table, staged.columns, CHANGED.format(fates=staged.fates))
        if changed and update is not None:
            await self._expect(staged, update, changed)

    async def _clear(self, staged: Staged) -> None:
        """Take away the parts of rows that are overwritten: those of the file take their place."""
        whole = staged.section.part_of
        if whole is None or whole.section not in self._staged or staged.section.name == "memory_vectors":
            return
        other = self._staged[whole.section]
        if not self._overwrite or not other.section.changes:
            return
        fields = {field.name: field for field in staged.section.fields}
        keys = {field.name: field for field in other.section.fields}
        same = " AND ".join(
            f't."{fields[name].column}" = {keys[of].writes}' for name, of in zip(whole.columns, whole.of, strict=True)
        )
        await self._connection.execute(
            f"DELETE FROM {staged.section.table} AS t USING {other.source()}{other.section.resolves}"
            f" WHERE t.tenant_id = $1 AND {same} AND {CHANGED.format(fates=other.fates)}",
            self._tenant_id,
        )

    async def _create(self, staged: Staged, counts: Counts) -> None:
        again = await self._fated(staged, "again")
        if not counts.created + again:
            return
        if staged.section.name == "memory_vectors":
            if await self._spaces.lay(staged) != counts.created:
                raise Interfered(staged.section.name)
            return
        where = NEW.format(fates=staged.fates)
        await self._expect(staged, staged.section.insert(staged.table, staged.columns, where), counts.created + again)
        if staged.section.name == "memory_spaces":
            await self._spaces.make(staged)

    async def _settle(self, outcome: Outcome) -> None:
        """What can be written only now that every section has its rows."""
        for name, staged in self._staged.items():
            counts = outcome.sections[name]
            if counts.created + counts.changed:
                await self._lately(staged)
                for sql in staged.section.finish:
                    await self._connection.execute(sql, self._tenant_id)
            if self._overwrite and counts.changed and await has_cycle(self._connection, staged, self._tenant_id):
                raise BackupRefused("rows", "A row would descend from itself, by way of others.", section=name)
        if "memory_items" in self._staged:
            await self._spaces.find_in_others(self._staged["memory_items"], outcome.sections["memory_items"])
        written = [outcome.sections[name] for name, one in self._staged.items() if one.section.holds_documents]
        if any(counts.created + counts.changed for counts in written):
            await cut_later(self._connection, self._tenant_id)
        restored = any(outcome.sections[name].created for name in EVENTS if name in outcome.sections)
        await self._connection.execute(WEBHOOK_HEAD, self._tenant_id, restored)
        await self._spaces.attach()

    async def _lately(self, staged: Staged) -> None:
        """Members that lead to rows of later sections; one that was left out, and is not there, is not named."""
        written = f"{NEW.format(fates=staged.fates)} OR ({self._overwrite} AND {CHANGED.format(fates=staged.fates)})"
        where = [f"({written})"]
        late = {field.name for field in staged.section.fields if field.late}
        for parent in staged.section.parents:
            other = self._staged.get(parent.section)
            if late.intersection(parent.columns) and other is not None and late.intersection(staged.columns):
                (name,), (of,) = parent.columns, parent.of
                absent = ABSENT.format(rows=other.source(), fates=other.fates, table=other.section.table, of=of)
                where.append(f'(r."{name}" IN ({absent})) IS NOT TRUE')
        sql = staged.section.update(staged.table, staged.columns, " AND ".join(where), late=True)
        if sql is not None:
            await self._connection.execute(sql, self._tenant_id)

    async def _expect(self, staged: Staged, sql: str, rows: int) -> None:
        """Run it; it is to write so many rows of the section."""
        if touched(await self._connection.execute(sql, self._tenant_id)) != rows:
            raise Interfered(staged.section.name)


def _emptied(staged: Mapping[str, Staged]) -> tuple[Section, ...]:
    """The sections that are emptied for those of a file: they themselves, and whatever refers to them."""
    every = [section for section in sections() if section.table is not None and section.emptied]
    found = {section.name for section in every if section.name in staged}
    size = -1
    while len(found) != size:
        size = len(found)
        found |= {section.name for section in every if any(parent.section in found for parent in section.parents)}
    return tuple(section for section in every if section.name in found)
