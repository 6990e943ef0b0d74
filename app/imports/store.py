"""Brings a dump into the record: read and checked whole, staged in temporary tables, stored in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from app.db.database import Database, Transaction
from app.db.sql import Statement, load, touched
from app.imports.dump import DumpFile, DumpRefused, files_of, rows_of
from app.imports.lucky import (
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
from app.imports.lucky_beside import DATASET_RECORD, MCP_CONFIG
from app.imports.mapping import Place, TableMapping
from app.imports.report import NAMED_MAX, Note, Report, TableReport
from app.imports.staging import dangling, differing, forgetting, repeated, stage_of, staging, storing

Advance = Callable[[int], None]
# How many problems one refusal names; there may be as many as rows.
PROBLEMS_MAX = 50
_REFUSED = (
    (GENERATION, "taken_numbers"),
    (NODE_VERSION, "taken_revisions"),
    (VERSION, "other_io"),
    (DATASET_RECORD, "other_dataset"),
)
# What is stored beside the tables that rows of the dump become.
_BESIDE = ("version_io", "generation_members", "mcp_config_sets")
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
    if place.omitted:
        part.left_out[place.omitted] += 1
        part.note(place.omitted, f"line {place.row.line}: {name}")


class _Import:
    """One import, inside its transaction."""

    def __init__(self, transaction: Transaction, tenant_id: str, report: Report, advance: Advance) -> None:
        self._transaction, self._tenant_id = transaction, tenant_id
        self._report, self._advance = report, advance
        self._parts = {part.source: part for part in report.tables}

    async def run(self, files: Mapping[str, DumpFile]) -> None:
        """Stage, fit, check and store the rows of the files. Raises `DumpRefused`."""
        # One statement stores a whole table, whatever time-out the role has.
        await self._run("SET LOCAL statement_timeout = 0")
        for mapping in TABLES:
            await self._stage(mapping, files.get(mapping.source))
        self._files = {mapping.source: file.path.name for mapping in TABLES if (file := files.get(mapping.source))}
        await self._do("place_tools")
        for mapping in TABLES:
            await self._refuse(mapping, repeated(mapping))
        await self._fit_parents()
        await self._fit_configurations()
        for mapping in TABLES:
            for sql in dangling(mapping):
                await self._refuse(mapping, sql, self._tenant_id)
        await self._note(EVOLUTION_RUN, "end_runs", "it had ended without an end_time; ended_at is the last known")
        await self._fit_invocations()
        await self._fit_nodes()
        await self._note(GENERATION, "number_generations_once", "the number was taken in its run, so it has the next")
        await self._note(MCP_CONFIG, "name_configs_once", "the name was taken among the user's")
        await self._refuse_other_content()
        for mapping in TABLES:
            await self._store(mapping)
        await self._do("store_best")
        await self._do("store_members")
        # Reads are planned by what the tables hold; the server would look at them some time later.
        await self._run(f"ANALYZE {', '.join([*(mapping.target for mapping in TABLES), *_BESIDE])}")

    async def _stage(self, mapping: TableMapping, file: DumpFile | None) -> None:
        for sql in staging(mapping):
            await self._run(sql)
        stage = stage_of(mapping.target)
        if file is not None:
            columns = mapping.staged
            await self._transaction.connection.copy_records_to_table(
                stage, records=_records(mapping, file, columns, self._advance), columns=columns
            )
        await self._run(f"ANALYZE {stage}")

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
            await self._refuse(mapping, differing(mapping), self._tenant_id)
        for mapping, name in _REFUSED:
            await self._refuse(mapping, _lucky()[name].text, self._tenant_id)

    async def _store(self, mapping: TableMapping) -> None:
        """Store what is not there yet; every row of the stage that is there is equal."""
        if mapping is VERSION:
            await self._do("bring_io_back")
            await self._note(VERSION, "bring_back", "a rule of retention had let its content go")
        there = await self._run(forgetting(mapping), self._tenant_id)
        if mapping is MCP_CONFIG:
            await self._do("enter_config_sets")
        made = await self._run(storing(mapping), self._tenant_id)
        if mapping is VERSION:
            await self._do("store_io")
        part = self._parts.get(mapping.source)
        if part is not None:
            # Configurations that the import made are rows of no file.
            own = await self._transaction.connection.fetchval(
                f"SELECT count(*) FROM {stage_of(mapping.target)} WHERE line = 0"
            )
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
        """Carry out a statement that returns the rows it fitted, and say so in the report. Returns their number."""
        found = await self._fetch(
            f"WITH fitted AS ({_lucky()[name].source})"
            f" SELECT *, count(*) OVER () AS total FROM fitted ORDER BY line, id LIMIT {NAMED_MAX}"
        )
        total: int = found[0]["total"] if found else 0
        part = self._parts.get(mapping.source)
        if part is not None and found:
            told = (
                f"line {row['line']}: {row['id']} {row['detail']}" if row["line"] else row["detail"] for row in found
            )
            part.notes[what] = Note(total, list(told))
        return total

    async def _do(self, name: str) -> None:
        await self._fetch(_lucky()[name].source)

    async def _fetch(self, sql: str) -> list[Any]:
        statement = Statement(sql)
        arguments = {"tenant_id": self._tenant_id}
        found: list[Any] = await self._transaction.connection.fetch(statement.text, *statement.bind(arguments))
        return found

    async def _run(self, sql: str, *arguments: Any) -> int:
        """Run one statement. Returns the number of rows it changed."""
        return touched(await self._transaction.connection.execute(sql, *arguments))


async def _records(
    mapping: TableMapping, file: DumpFile, columns: list[str], advance: Advance
) -> AsyncIterator[tuple[Any, ...]]:
    for row in rows_of(file, advance):
        place = mapping.convert(file.path.name, row)
        if place.omitted is None:
            yield tuple(map(place.record.get, columns))
