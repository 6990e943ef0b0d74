"""The rows of a backup in temporary tables of one connection, whole and checked, before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg

from app.backups.ancestry import has_cycle
from app.backups.errors import BackupRefused
from app.backups.format import Section as Begun
from app.backups.reading import Lines
from app.backups.rows import Whole
from app.backups.sections import ARTIFACT_BYTES, sections
from app.backups.staged import UNACCEPTABLE, Staged
from app.db.revision import revisions
from app.submissions.tables import OUTCOMES

# What bytes come to: which artifact, or which attachment, at which size, with which digests.
WHOLE_TABLE = (
    "CREATE TEMPORARY TABLE staged_wholes (section text, first text, second text, size_bytes bigint,"
    " part_bytes integer, regular boolean, digest bytea, part_digests bytea)"
)
FALSE_ARTIFACT = (
    "SELECT s.line FROM {rows} LEFT JOIN staged_wholes AS w ON w.section = 'artifact_bytes' AND"
    " w.first = r.hash::text WHERE CASE WHEN w.section IS NULL THEN r.size_bytes > 0 OR"
    " r.hash <> sha256('') OR r.part_digests <> '' ELSE w.digest <> r.hash OR w.size_bytes <> r.size_bytes"
    " OR NOT w.regular OR w.part_digests <> r.part_digests OR (w.part_bytes <> r.part_bytes AND"
    " octet_length(w.part_digests) > 32) OR w.part_bytes > r.part_bytes END OR r.part_bytes < 1 ORDER BY 1 LIMIT 1"
)
FALSE_ATTACHMENT = (
    "SELECT s.line FROM {rows} LEFT JOIN staged_wholes AS w ON w.section = 'attachment_chunks'"
    " AND w.first = r.path AND w.second = r.id WHERE CASE WHEN w.section IS NULL"
    " THEN r.size_bytes > 0 OR r.digest <> sha256('') ELSE w.digest <> r.digest OR w.size_bytes <> r.size_bytes"
    " OR NOT w.regular OR (w.part_bytes <> r.chunk_bytes AND octet_length(w.part_digests) > 32)"
    " OR w.part_bytes > r.chunk_bytes END OR r.chunk_bytes < 1 ORDER BY 1 LIMIT 1"
)

# What no constraint holds, and later changes go by: the section, a column, what a row has that is false, and why.
# `rows` are all of the section.
FALSE = (
    (
        "artifacts",
        "hash",
        "(r.part_bytes > 0 AND r.size_bytes >= 0 AND octet_length(r.hash) = 32 AND octet_length(r.part_digests) ="
        " 32 * ((r.size_bytes + r.part_bytes - 1) / NULLIF(r.part_bytes, 0))) IS NOT TRUE",
        "The digests are not those of its parts.",
    ),
    (
        "memory_spaces",
        "active",
        "NOT EXISTS (SELECT FROM {rows} WHERE r.active)",
        "No space is active.",
    ),
    (
        "memory_spaces",
        "language",
        "NOT EXISTS (SELECT FROM pg_ts_config AS c WHERE c.cfgname = r.language AND pg_ts_config_is_visible(c.oid))",
        "PostgreSQL does not know the language.",
    ),
    (
        "submissions",
        "settlement_outcome",
        f"r.settlement_outcome <> ALL (ARRAY[{', '.join(map(repr, OUTCOMES))}])",
        "There is no such outcome.",
    ),
)
# What rows said otherwise before a revision of the schema: the revision, the section, which rows, and what stands for
# which of their text; within a string the quotes would have backslashes.
UPGRADES = (
    # A switch that meant nothing for its kind was kept as false.
    ("0043", "retention_rules", "s.\"row\" ->> 'kind' = 'versions'", r'"keep_best"\s*:\s*false', '"keep_best":true'),
)
# What is appended next would get a number that a batch has already.
FALSE_STREAM = (
    "SELECT s.line FROM {streams} JOIN (SELECT r.path, min(r.seq) AS first, max(r.seq) AS last,"
    " max(ARRAY[r.producer_epoch, r.producer_sequence]) AS produced FROM {batches} GROUP BY r.path) AS b USING (path)"
    " WHERE b.first < 0 OR b.last >= r.next_seq OR b.produced >= ARRAY[r.producer_epoch, r.next_producer_sequence]"
    " ORDER BY 1 LIMIT 1"
)


class Staging:
    """Takes the pieces of a file in. The temporary tables are gone with the connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._known = {section.name: (number, section) for number, section in enumerate(sections())}
        self._begun: dict[str, tuple[str, ...]] = {}
        self._counts: dict[str, int] = {}

    async def begin(self) -> None:
        """Make room."""
        await self.connection.execute(WHOLE_TABLE)

    async def section(self, begun: Begun) -> None:
        """A section begins; one that this release does not know is left out."""
        if begun.name in self._known and begun.name != ARTIFACT_BYTES.name:
            await self.connection.execute(
                f"CREATE TEMPORARY TABLE {self._table(begun.name)}"
                ' (line bigint GENERATED ALWAYS AS IDENTITY (CACHE 1000), "row" json)'
            )
            self._begun[begun.name] = tuple(begun.columns)
            self._counts[begun.name] = 0

    async def rows(self, lines: Lines) -> None:
        """Rows of a section. Raises `BackupRefused` where PostgreSQL cannot read one."""
        if lines.section not in self._begun:
            return
        text = await asyncio.to_thread(lines.text.replace, b"\\", b"\\\\")

        async def parts() -> AsyncIterator[bytes]:
            yield text

        try:
            await self.connection.copy_to_table(self._table(lines.section), source=parts(), columns=["row"])
        except UNACCEPTABLE as error:
            raise BackupRefused(
                "rows", "PostgreSQL cannot read a row.", section=lines.section, row=lines.first
            ) from error
        self._counts[lines.section] += text.count(b"\n")

    async def wholes(self, found: list[Whole]) -> None:
        """What bytes came to; the list is empty afterwards."""
        await self.connection.copy_records_to_table(
            "staged_wholes",
            records=[
                (w.section, w.key[0], w.key[1] if len(w.key) > 1 else None, w.size_bytes, w.part_bytes, w.regular,
                 w.digest, w.part_digests)
                for w in found
            ],
        )  # fmt: skip
        found.clear()

    async def end(self, schema_revision: str, *, with_bytes: bool) -> dict[str, Staged]:
        """What is staged, each section after those that its rows refer to, looked through as a whole.

        Rows of an older schema are what they are in this one. Raises `BackupRefused` where a key is there twice, a row
        descends from itself, or bytes are not those promised.
        """
        await self.connection.execute("ANALYZE staged_wholes")
        found = {
            name: Staged(section, self._table(name), self._begun[name], self._counts[name])
            for name, (_, section) in self._known.items()
            if name in self._begun
        }
        await self._upgrade(found, schema_revision)
        for staged in found.values():
            await self.connection.execute(f"ANALYZE {staged.table} (line)")
            await self._each_once(staged)
        await self._nothing_is_false(found)
        await self._wholes_are_true(found, with_bytes=with_bytes)
        await self._numbers_are_free(found)
        for staged in found.values():
            if await self._descends_from_itself(staged):
                raise BackupRefused("rows", "A row descends from itself.", section=staged.section.name)
        return found

    async def _upgrade(self, found: dict[str, Staged], schema_revision: str) -> None:
        known = revisions()
        for revision, name, condition, before, now in UPGRADES:
            if name in found and known.index(schema_revision) < known.index(revision):
                await self.connection.execute(
                    f'UPDATE {found[name].table} AS s SET "row" ='
                    f" regexp_replace(s.\"row\"::text, '{before}', '{now}')::json WHERE {condition}"
                )

    async def _descends_from_itself(self, staged: Staged) -> bool:
        try:
            return await has_cycle(self.connection, staged)
        except UNACCEPTABLE as error:
            raise BackupRefused("rows", "A value is not of its type.", section=staged.section.name) from error

    async def _each_once(self, staged: Staged) -> None:
        names = [name for name in staged.section.key if name in staged.columns]
        if len(names) < len(staged.section.key):
            raise BackupRefused("sections", "A section without its key.", section=staged.section.name)
        keys = ", ".join(f'r."{name}"' for name in names) or "()"
        nulls = " OR ".join(f'r."{name}" IS NULL' for name in names) or "false"
        twice = await self._fetch(
            staged,
            f"SELECT max(s.line) FROM {staged.source()} GROUP BY {keys}"
            f" HAVING count(*) > 1 OR bool_or({nulls}) LIMIT 1",
        )
        if twice is not None:
            raise BackupRefused("rows", "A key is there twice, or is null.", section=staged.section.name, row=twice)

    async def _wholes_are_true(self, found: dict[str, Staged], *, with_bytes: bool) -> None:
        for name, sql in (("artifacts", FALSE_ARTIFACT), ("attachments", FALSE_ATTACHMENT)):
            if name in found and (with_bytes or name != "artifacts"):
                false = await self._fetch(found[name], sql.format(rows=found[name].source()))
                if false is not None:
                    raise BackupRefused("rows", "The bytes are not those of the row.", section=name, row=false)

        of_none = (
            "SELECT EXISTS (SELECT FROM staged_wholes AS w WHERE w.section = 'artifact_bytes' AND NOT EXISTS ({}))"
        )
        known = "SELECT WHERE false"
        if "artifacts" in found:
            known = f"SELECT FROM {found['artifacts'].source()} WHERE r.hash::text = w.first"
        if await self.connection.fetchval(of_none.format(known)):
            raise BackupRefused("rows", "There are bytes of no artifact.", section=ARTIFACT_BYTES.name)

    async def _nothing_is_false(self, found: dict[str, Staged]) -> None:
        for name, column, condition, detail in FALSE:
            if name in found and column in found[name].columns:
                rows = found[name].source()
                false = await self._fetch(
                    found[name], f"SELECT s.line FROM {rows} WHERE {condition.format(rows=rows)} ORDER BY 1 LIMIT 1"
                )
                if false is not None:
                    raise BackupRefused("rows", detail, section=name, row=false)

    async def _numbers_are_free(self, found: dict[str, Staged]) -> None:
        streams, batches = found.get("conversation_streams"), found.get("conversation_batches")
        if streams is not None and batches is not None:
            sql = FALSE_STREAM.format(streams=streams.source(), batches=batches.source())
            false = await self._fetch(streams, sql)
            if false is not None:
                raise BackupRefused(
                    "rows", "A batch has a number that is still to come.", section=streams.section.name, row=false
                )

    async def _fetch(self, staged: Staged, sql: str) -> int | None:
        try:
            found: int | None = await self.connection.fetchval(sql)
        except UNACCEPTABLE as error:
            raise BackupRefused("rows", "A value is not of its type.", section=staged.section.name) from error
        return found

    def _table(self, name: str) -> str:
        return f"staged_{self._known[name][0]}"
