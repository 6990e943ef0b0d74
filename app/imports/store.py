"""Brings a dump into the record: read and checked whole, staged in temporary tables, stored in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from app.db.database import Database, Transaction
from app.db.sql import Statement, load
from app.imports.dump import DumpFile, DumpRefused, Row, files_of, rows_of
from app.imports.lucky import (
    DATASET_RECORD,
    EVOLUTION_RUN,
    GENERATION,
    INVOCATION,
    LEFT_OUT,
    NODE_INVOCATION,
    NODE_VERSION,
    TABLES,
    UNKNOWN,
    VERSION,
)
from app.imports.mapping import Place, Record, TableMapping
from app.imports.report import Report, TableReport
from app.tables import METADATA

Advance = Callable[[int], None]
# How many problems one refusal names; there may be as many as rows.
PROBLEMS_MAX = 50
# Stored after the rows that it points to.
_LATER = {"generations": {"best_version_id"}}
# What two equal versions may differ in as text: their hash is compared.
_NOT_COMPARED = {"versions": {"dsl"}}
_REFUSED = (
    (GENERATION, "taken_numbers"),
    (NODE_VERSION, "taken_revisions"),
    (VERSION, "other_io"),
    (DATASET_RECORD, "other_dataset"),
)
_IS_MAPPED: Mapping[str, TableMapping] = {mapping.source: mapping for mapping in TABLES}


class _Rehearsed(Exception):
    """Everything was stored, and is taken back."""


@cache
def _lucky() -> dict[str, Statement]:
    return load(__file__, "lucky.sql")


def bytes_to_read(folder: Path) -> int:
    """How many bytes an import reads: every file twice. Raises `DumpRefused`."""
    return 2 * sum(file.size_bytes for file in files_of(folder)[0])


async def import_dump(
    database: Database, tenant_id: str, folder: Path, *, rehearse: bool = False, advance: Advance = lambda _bytes: None
) -> Report:
    """Import a dump of Lucky into a tenant, all of it or nothing; `rehearse` does all and takes it back.

    `advance` is told the bytes as they are read; each file is read twice. Raises `DumpRefused` where a file is broken,
    a reference leads nowhere, or a row is there already with other content.
    """
    report = Report()
    files, report.other_files = files_of(folder)
    for file in files:
        report.tables.append(_read(file, advance))
    try:
        async with database.writing() as transaction:
            await _Import(transaction, tenant_id, report, advance).run({file.table: file for file in files})
            if rehearse:
                raise _Rehearsed
    except _Rehearsed:
        return report
    report.stored = True
    return report


def _read(file: DumpFile, advance: Advance) -> TableReport:
    """Read a file to its end, each row as it will be stored, so that nothing is staged of what is broken."""
    mapping = _IS_MAPPED.get(file.table)
    part = TableReport(file.table, mapping.target if mapping else None)
    for row in rows_of(file, advance):
        part.read += 1
        if mapping is not None:
            _account(part, mapping, mapping.convert(file.path.name, row))
    if mapping is None and part.read:
        part.left_out[LEFT_OUT.get(file.table, UNKNOWN)] = part.read
    return part


def _account(part: TableReport, mapping: TableMapping, place: Place) -> None:
    name = place.row.columns[mapping.id_column].decode()
    part.columns_left_out.update(place.left_out)
    for what in place.notes:
        part.note(what, f"line {place.row.line}: {name}")
    reason = _why_left_out(mapping, place.record)
    if reason:
        part.left_out[reason] += 1
        part.note(reason, f"line {place.row.line}: {name}")


def _why_left_out(mapping: TableMapping, record: Record) -> str | None:
    return next((reason for column, reason in mapping.needs.items() if record.get(column) is None), None)


class _Import:
    """One import, inside its transaction."""

    def __init__(self, transaction: Transaction, tenant_id: str, report: Report, advance: Advance) -> None:
        self._transaction, self._tenant_id = transaction, tenant_id
        self._report, self._advance = report, advance
        self._parts = {part.source: part for part in report.tables}

    async def run(self, files: Mapping[str, DumpFile]) -> None:
        for mapping in TABLES:
            await self._stage(mapping, files.get(mapping.source))
        self._files = {mapping.source: file.path.name for mapping in TABLES if (file := files.get(mapping.source))}
        await self._refuse_repeated_ids()
        await self._fit_parents()
        await self._fit_configurations()
        await self._refuse_dangling()
        await self._note(EVOLUTION_RUN, "end_runs", "it had ended without an end_time; ended_at is the last known")
        await self._fit_invocations()
        await self._fit_nodes()
        await self._note(GENERATION, "number_generations_once", "the number was taken in its run, so it has the next")
        await self._refuse_other_content()
        for mapping in TABLES:
            await self._store(mapping)
        await self._do("store_best")
        await self._do("store_members")

    async def _stage(self, mapping: TableMapping, file: DumpFile | None) -> None:
        stage = f"lucky_{mapping.target}"
        extra = "".join(f", ADD COLUMN {name} {kind}" for name, kind in mapping.extra.items())
        await self._run(f"CREATE TEMPORARY TABLE {stage} ON COMMIT DROP AS SELECT * FROM {mapping.target} WITH NO DATA")
        await self._run(f"ALTER TABLE {stage} ADD COLUMN line bigint{extra}")
        if file is not None:
            columns = mapping.staged
            await self._transaction.connection.copy_records_to_table(
                stage, records=_records(mapping, file, columns, self._advance), columns=columns
            )
        await self._run(f"ANALYZE {stage}")

    async def _refuse_repeated_ids(self) -> None:
        for mapping in TABLES:
            key = ", ".join(mapping.key)
            await self._refuse(
                mapping,
                f"SELECT line, id, 'the id comes again; it was in line ' || first AS detail FROM (SELECT line, id,"
                f" first_value(line) OVER (PARTITION BY {key} ORDER BY line) AS first FROM lucky_{mapping.target}) AS r"
                " WHERE line <> first",
            )

    async def _fit_parents(self) -> None:
        await self._note(VERSION, "lost_parents", "a parent is neither in the dump nor in the tenant: parents_unknown")
        await self._do("place_parents")
        await self._note(VERSION, "third_parents", "a third parent has no place and is left out")
        await self._note(
            VERSION, "unusual_parents", "the operation takes other parents than it has: kept, with parents_unknown"
        )

    async def _fit_configurations(self) -> None:
        repeated = await self._note(
            NODE_VERSION, "one_configuration_once", "the configuration of an earlier revision again"
        )
        if repeated:
            self._parts[NODE_VERSION.source].left_out["the configuration of an earlier revision again"] += repeated
        await self._do("follow_kept_configurations")
        await self._do("leave_repeated_configurations")
        await self._note(NODE_VERSION, "number_revisions_once", "the number was taken at its node, so it has the next")

    async def _refuse_dangling(self) -> None:
        for mapping in TABLES:
            sources = {target: source for source, (target, _) in mapping.columns.items()}
            for column, target in mapping.references.items():
                await self._refuse(
                    mapping,
                    f"SELECT s.line, s.id, '{sources[column]} ' || s.{column} || ' is neither in the dump nor in the"
                    f" tenant' AS detail FROM lucky_{mapping.target} AS s WHERE s.{column} IS NOT NULL"
                    f" AND NOT EXISTS (SELECT FROM lucky_{target} AS t WHERE t.id = s.{column}) AND NOT EXISTS"
                    f" (SELECT FROM {target} AS t WHERE t.tenant_id = $1 AND t.id = s.{column})",
                    self._tenant_id,
                )

    async def _fit_invocations(self) -> None:
        await self._do("link_to_workflow")
        await self._note(INVOCATION, "link_to_generation", "generation_id was null and is that of its version")
        await self._note(INVOCATION, "link_to_run", "run_id was null and is that of its generation")
        await self._note(INVOCATION, "end_invocations", "it had ended without an end_time; ended_at is the last known")

    async def _fit_nodes(self) -> None:
        await self._note(NODE_INVOCATION, "end_nodes", "it had ended without an end_time; ended_at is its start")
        await self._do("place_nodes")
        await self._do("index_node_versions")
        made = "no configuration of the node was kept, so an empty one was made"
        await self._note(NODE_INVOCATION, "make_missing_node_versions", made)
        await self._do("link_nodes")

    async def _refuse_other_content(self) -> None:
        for mapping in TABLES:
            where = _same_key(mapping)
            await self._refuse(
                mapping,
                f"SELECT s.line, s.id, 'is there already with other content' AS detail FROM lucky_{mapping.target} AS s"
                f" JOIN {mapping.target} AS t ON t.tenant_id = $1 AND {where} WHERE {_differs(mapping)}",
                self._tenant_id,
            )
        for mapping, name in _REFUSED:
            await self._refuse(mapping, _lucky()[name].text, self._tenant_id)

    async def _store(self, mapping: TableMapping) -> None:
        """Store what is not there yet; every row of the stage that is there is equal."""
        stage, table = f"lucky_{mapping.target}", mapping.target
        there = await self._run(
            f"DELETE FROM {stage} AS s USING {table} AS t WHERE t.tenant_id = $1 AND {_same_key(mapping)}",
            self._tenant_id,
        )
        columns = ", ".join(name for name in mapping.stored if name not in _LATER.get(table, ()))
        made = await self._run(
            f"INSERT INTO {table} (tenant_id, {columns}) SELECT $1, {columns} FROM {stage}", self._tenant_id
        )
        if mapping is VERSION:
            await self._do("store_io")
        part = self._parts.get(mapping.source)
        if part is not None:
            # Configurations that the import made are rows of no file.
            own = await self._transaction.connection.fetchval(f"SELECT count(*) FROM {stage} WHERE line = 0")
            part.already_there, part.new = there, made - own

    async def _refuse(self, mapping: TableMapping, sql: str, *arguments: Any) -> None:
        found = await self._transaction.connection.fetch(
            f"SELECT *, count(*) OVER () AS total FROM ({sql}) AS p ORDER BY line LIMIT {PROBLEMS_MAX}", *arguments
        )
        if found:
            file = self._files.get(mapping.source, mapping.source)
            raise DumpRefused(
                [f"{file}:{row['line']}: {mapping.id_column} {row['id']}: {row['detail']}." for row in found],
                found[0]["total"],
            )

    async def _note(self, mapping: TableMapping, name: str, what: str) -> int:
        """Carry out a statement that returns the rows it fitted, and say so in the report."""
        found = await self._do(name)
        part = self._parts.get(mapping.source)
        if part is not None:
            for row in sorted(found, key=itemgetter("line")):
                part.note(what, f"line {row['line']}: {row['id']} {row['detail']}" if row["line"] else row["detail"])
        return len(found)

    async def _do(self, name: str) -> list[Any]:
        statement = _lucky()[name]
        arguments = {"tenant_id": self._tenant_id}
        found: list[Any] = await self._transaction.connection.fetch(statement.text, *statement.bind(arguments))
        return found

    async def _run(self, sql: str, *arguments: Any) -> int:
        """Run one statement. Returns the number of rows it changed."""
        status: str = await self._transaction.connection.execute(sql, *arguments)
        return int(status.rsplit(" ", 1)[-1]) if status[-1].isdigit() else 0


async def _records(
    mapping: TableMapping, file: DumpFile, columns: list[str], advance: Advance
) -> AsyncIterator[tuple[Any, ...]]:
    for row in rows_of(file, advance):
        record = _converted(mapping, file, row)
        if record is not None:
            yield tuple(map(record.get, columns))


def _converted(mapping: TableMapping, file: DumpFile, row: Row) -> Record | None:
    record = mapping.convert(file.path.name, row).record
    return None if _why_left_out(mapping, record) else record


def _same_key(mapping: TableMapping) -> str:
    return " AND ".join(f"t.{name} = s.{name}" for name in mapping.key)


def _differs(mapping: TableMapping) -> str:
    """Whether a stored row is another than the staged one: by its digest, or column by column where it has none."""
    table = METADATA.tables[mapping.target]
    if "digest" in table.columns:
        return "t.digest IS DISTINCT FROM s.digest"
    names = [name for name in mapping.stored if name not in _NOT_COMPARED.get(mapping.target, ())]
    texts = {name for name in names if str(table.columns[name].type) == "JSON"}
    compared = (
        (f"t.{name}::text", f"s.{name}::text") if name in texts else (f"t.{name}", f"s.{name}") for name in names
    )
    return " OR ".join(f"{stored} IS DISTINCT FROM {staged}" for stored, staged in compared)
