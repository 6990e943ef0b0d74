"""What becomes of each row of a backup: whether it is new, there already, there as another, or left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import asyncpg

from app.backups.section import Parent, Section, Unique
from app.backups.staged import Staged
from app.db.sql import touched
from app.memory.errors import MemorySpacesFull
from app.memory.space_store import SPACES_MAX

Mode = Literal["preview", "merge", "replace"]
OnConflict = Literal["skip", "fail", "overwrite"]

# Named conflicts of a section, at most.
NAMED_MAX = 20
# Restored where a tenant has no events of its own, else left as they are: positions are never given out twice.
EVENTS = frozenset({"event_heads", "events"})
# Where `s` is a line: rows that are inserted, updated where those of the file are wanted, given their content again.
NEW = "NOT EXISTS (SELECT FROM {fates} AS f WHERE f.line = s.line AND f.fate <> 'again')"
CHANGED = "EXISTS (SELECT FROM {fates} AS f WHERE f.line = s.line AND f.fate = 'differs')"
BACK = "EXISTS (SELECT FROM {fates} AS f WHERE f.line = s.line AND f.fate = 'back')"
# Spaces of the file that have another model, or another size, here: no vector of the one lies in the other.
OTHER_SPACES = (
    "SELECT r.name FROM {rows} JOIN memory_spaces AS p ON p.tenant_id = $1 AND p.name = r.name"
    " WHERE (p.model, p.dimensions) IS DISTINCT FROM (r.model, r.dimensions)"
)
SPACES = "SELECT count(*) FROM memory_spaces WHERE tenant_id = $1"
HEAD = "SELECT position FROM event_heads WHERE tenant_id = $1"


@dataclass(frozen=True)
class Counts:
    """What becomes of the rows of a section; they add up to its rows, where `conflicts` are the skipped ones."""

    created: int
    kept: int
    changed: int
    conflicts: int
    skipped: int
    ids: tuple[str, ...] = ()
    removed: int | None = None

    def shown(self) -> dict[str, object]:
        """As JSON; `ids` names some of the conflicts."""
        told: dict[str, object] = {
            "created": self.created,
            "kept": self.kept,
            "changed": self.changed,
            "conflicts": self.conflicts,
            "skipped": self.skipped,
        }
        if self.ids:
            told["conflict_ids"] = list(self.ids)
        return told if self.removed is None else {**told, "removed": self.removed}


class Fates:
    """Decides for every staged row of a tenant, in the order of the sections, and writes nothing but temporary tables.

    A fate is `kept` (there, and the same), `back` (there without its content, which it gets whatever becomes of
    others), `differs` (there as another), `again` (written anew with the row that it is part of), `taken` (another row
    has what only one may have), `without` (left out with the row that it needs). A row without one is new.
    """

    def __init__(
        self, connection: asyncpg.Connection, tenant_id: str, staged: Mapping[str, Staged], *, overwrite: bool,
        emptied: frozenset[str],
    ) -> None:  # fmt: skip
        self.connection, self.tenant_id, self.staged = connection, tenant_id, staged
        self._overwrite, self._emptied = overwrite, emptied
        self._decided: set[str] = set()

    async def decide(self, staged: Staged) -> Counts:
        """The fates of a section's rows; those of every section before it are decided. Raises `MemorySpacesFull`."""
        section = staged.section
        await self.connection.execute(
            f"CREATE TEMPORARY TABLE {staged.fates} (line bigint PRIMARY KEY, fate text) ON COMMIT DROP"
        )
        if section.name in EVENTS:
            await self._events(staged)
        elif section.name not in self._emptied and await self._has_rows(section):
            await self._held(staged)
            for unique in section.uniques:
                await self._taken(staged, unique)
        await self._with_what_they_are_part_of(staged)
        await self._without_parents(staged)
        await self._without_their_space(staged)
        await self.connection.execute(f"ANALYZE {staged.fates}")
        self._decided.add(section.name)
        counts = await self._counted(staged)
        if section.name == "memory_spaces" and counts.created:
            await self._require_room(counts.created)
        return counts

    async def _events(self, staged: Staged) -> None:
        """All or none. Where they are restored, the head is locked to the end of the transaction: no event gets a
        position meanwhile.
        """
        head = await self.connection.fetchval(HEAD, self.tenant_id) or await self.connection.fetchval(
            f"{HEAD} FOR UPDATE", self.tenant_id
        )
        if head or await self.connection.fetchval(
            "SELECT EXISTS (SELECT FROM events WHERE tenant_id = $1)", self.tenant_id
        ):
            await self.connection.execute(f"INSERT INTO {staged.fates} SELECT s.line, 'kept' FROM {staged.table} AS s")

    async def _has_rows(self, section: Section) -> bool:
        found: bool = await self.connection.fetchval(
            f"SELECT EXISTS (SELECT FROM {section.table} WHERE tenant_id = $1)", self.tenant_id
        )
        return found

    async def _require_room(self, spaces: int) -> None:
        """Each space has its partition, of which there are few for all tenants. Raises `MemorySpacesFull`."""
        if "memory_spaces" not in self._emptied:
            spaces += await self.connection.fetchval(SPACES, self.tenant_id)
        if spaces > SPACES_MAX:
            raise MemorySpacesFull(f"A tenant has at most {SPACES_MAX} spaces; delete some first.", limit=SPACES_MAX)

    async def _held(self, staged: Staged) -> None:
        section = staged.section
        same = f'e."row"::text = e.held::text OR ({section.outdone})' if section.conflicts else "true"
        back = "false" if self._overwrite else section.back
        await self.connection.execute(
            f"INSERT INTO {staged.fates}"
            f" SELECT e.line, CASE WHEN {same} THEN 'kept' WHEN {back} THEN 'back' ELSE 'differs' END"
            f" FROM ({section.existing(staged.table, staged.columns)}) AS e",
            self.tenant_id,
        )

    async def _taken(self, staged: Staged, unique: Unique) -> None:
        """Rows that are to be written, and that have what another row of the tenant has and only one may have."""
        section = staged.section
        fields = {field.name: field for field in section.fields}
        if not set(unique.columns) <= set(staged.columns):
            return
        predicate = unique.predicate or "true"
        same = " AND ".join(f'q."{name}" = {fields[name].reads}' for name in unique.columns) or "true"
        itself = " AND ".join(f'q."{name}" = {fields[name].reads}' for name in section.key)
        await self.connection.execute(
            f"INSERT INTO {staged.fates} SELECT DISTINCT q.line, 'taken'"
            f" FROM (SELECT * FROM (SELECT s.line, r.* FROM {staged.source()}) AS w WHERE {predicate}) AS q,"
            f" (SELECT * FROM {section.table} WHERE tenant_id = $1 AND ({predicate})) AS t{section.joins}"
            f" WHERE {same} AND NOT ({itself}) AND {self._is_written(staged, 'q.line')}"
            " ON CONFLICT (line) DO UPDATE SET fate = 'taken'",
            self.tenant_id,
        )

    async def _with_what_they_are_part_of(self, staged: Staged) -> None:
        """Parts of a row that is there as another: written anew with it, or left out with it."""
        whole = staged.section.part_of
        if whole is None or whole.section not in self.staged:
            return
        fate = "again" if self._overwrites(self.staged[whole.section]) else "without"
        if staged.section.name == "memory_vectors" and fate == "again":
            # What lies in a space stays there, and is changed.
            fate = "differs"
        where = "true" if fate != "differs" else f"EXISTS (SELECT FROM {staged.fates} AS f WHERE f.line = s.line)"
        await self._follow(staged, whole, "('differs')", fate, where)

    async def _without_parents(self, staged: Staged) -> None:
        """What needs a row that is left out is left out with it, and so on."""
        section, left_out = staged.section, "('taken', 'without')"
        for parent in section.parents:
            # What is referred to late is never left out: nothing else than its key can be taken.
            if parent.section in self._decided:
                await self._follow(staged, parent, left_out, "without", self._is_written(staged, "s.line"))
        own = [parent for parent in section.parents if parent.section == section.name]
        more = True
        while more:
            more = False
            for parent in own:
                more |= await self._follow(staged, parent, left_out, "without", self._is_written(staged, "s.line"))

    async def _without_their_space(self, staged: Staged) -> None:
        spaces = self.staged.get("memory_spaces")
        if staged.section.name == "memory_vectors" and spaces is not None and "memory_spaces" not in self._emptied:
            await self.connection.execute(
                f"INSERT INTO {staged.fates} SELECT s.line, 'without' FROM {staged.source()}"
                f" WHERE r.space IN ({OTHER_SPACES.format(rows=spaces.source())})"
                " ON CONFLICT (line) DO UPDATE SET fate = 'without'",
                self.tenant_id,
            )

    async def _follow(self, staged: Staged, parent: Parent, fates: str, fate: str, where: str) -> bool:
        other = self.staged[parent.section]
        if not set(parent.columns) <= set(staged.columns) or not await self.connection.fetchval(
            f"SELECT EXISTS (SELECT FROM {other.fates} WHERE fate IN {fates})"
        ):
            return False
        child = ", ".join(f'r."{name}"' for name in parent.columns)
        key = ", ".join(f'r."{name}"' for name in parent.of)
        done = await self.connection.execute(
            f"INSERT INTO {staged.fates} SELECT s.line, '{fate}' FROM {staged.source()} WHERE {where} AND ({child}) IN"
            f" (SELECT {key} FROM {other.source()} JOIN {other.fates} AS f ON f.line = s.line WHERE f.fate IN {fates})"
            f" ON CONFLICT (line) DO UPDATE SET fate = '{fate}'"
        )
        return touched(done) > 0

    def _overwrites(self, staged: Staged) -> bool:
        return self._overwrite and staged.section.changes

    def _is_written(self, staged: Staged, line: str) -> str:
        """Whether a row is new, or changes what is there."""
        stays = "" if not self._overwrites(staged) else " AND f.fate NOT IN ('differs', 'again')"
        return f"NOT EXISTS (SELECT FROM {staged.fates} AS f WHERE f.line = {line}{stays})"

    async def _counted(self, staged: Staged) -> Counts:
        found = dict(await self.connection.fetch(f"SELECT fate, count(*) FROM {staged.fates} GROUP BY fate"))
        differs, again, taken = found.get("differs", 0), found.get("again", 0), found.get("taken", 0)
        overwritten = differs + again if self._overwrites(staged) else 0
        conflicts = taken + differs + again - overwritten
        return Counts(
            created=staged.rows - sum(found.values()),
            kept=found.get("kept", 0),
            changed=overwritten + found.get("back", 0),
            conflicts=conflicts,
            skipped=conflicts + found.get("without", 0),
            ids=await self._named(staged, conflicts),
        )

    async def _named(self, staged: Staged, conflicts: int) -> tuple[str, ...]:
        if not conflicts:
            return ()
        key = " || ' ' || ".join(f'r."{name}"::text' for name in staged.section.key) or "''"
        fates = "('taken')" if self._overwrites(staged) else "('taken', 'differs', 'again')"
        found = await self.connection.fetch(
            f"SELECT {key} AS id FROM {staged.source()} JOIN {staged.fates} AS f ON f.line = s.line"
            f" WHERE f.fate IN {fates} ORDER BY s.line LIMIT {NAMED_MAX}"
        )
        return tuple(row["id"] for row in found)
