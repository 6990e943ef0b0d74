"""Every table and every column is in a section of a backup, or is left out by name, with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg

from app.backups.sections import LEFT_OUT, LEFT_OUT_COLUMNS, sections, with_what_they_need
from app.tables import METADATA

SECTIONS = {section.name: section for section in sections()}


def test_every_table_is_in_one_section_or_named_with_a_reason() -> None:
    tables = [table for s in SECTIONS.values() for table in (s.table, *s.also) if table is not None]
    assert sorted([*tables, *LEFT_OUT]) == sorted(METADATA.tables)
    assert all(reason.endswith(".") for reason in LEFT_OUT.values())


def test_every_column_is_a_member_or_named_with_a_reason() -> None:
    written: set[tuple[str, str]] = set()
    for section in SECTIONS.values():
        for table in (section.table, *section.also):
            if table is not None:
                columns = {c.name for c in METADATA.tables[table].columns}
                own = table == section.table
                told = {field.column if own else field.name for field in section.fields if own == bool(field.column)}
                written |= {(table, name) for name in told & columns}
    expected = {
        (table.name, column.name)
        for table in METADATA.tables.values()
        if table.name not in LEFT_OUT
        for column in table.columns
        if column.name != "tenant_id" and column.computed is None
    }
    assert written | set(LEFT_OUT_COLUMNS) == expected
    assert not written & set(LEFT_OUT_COLUMNS)


def test_a_section_comes_after_those_that_its_rows_refer_to() -> None:
    order = list(SECTIONS)
    later = {
        (section.name, parent.section)
        for section in SECTIONS.values()
        for parent in section.parents
        if order.index(parent.section) > order.index(section.name)
    }
    assert later == {("generations", "versions")}
    for section in SECTIONS.values():
        for parent in (*section.parents, *filter(None, [section.part_of])):
            assert set(parent.columns) <= set(section.columns)
            assert set(parent.of) <= set(SECTIONS[parent.section].columns)
        assert set(section.key) <= set(section.columns)


def test_what_a_section_needs_comes_with_it() -> None:
    names = [section.name for section in with_what_they_need(["messages", "attachments"])]
    assert names == [
        name for name in SECTIONS
        if name in {"stream_paths", "attachments", "attachment_chunks", "datasets", "dataset_versions",
                    "dataset_records", "evaluators", "evolution_runs", "generations", "workflows", "versions",
                    "invocations", "messages"}
    ]  # fmt: skip
    memory = {section.name for section in with_what_they_need(["memory_spaces"])}
    assert memory == {"memory_spaces", "memory_items", "memory_vectors"}


async def test_postgresql_takes_every_statement(clone: Callable[[], Awaitable[str]]) -> None:
    connection = await asyncpg.connect(await clone())
    try:
        await connection.execute('CREATE TEMPORARY TABLE staged (line bigint, "row" json)')
        for section in SECTIONS.values():
            if section.table is not None:
                columns = section.columns
                for sql in (
                    section.select(), section.count(), section.existing("staged", columns),
                    section.insert("staged", columns), section.insert("staged", columns[:-1] or columns, "s.line > 1"),
                    section.update("staged", columns), section.update("staged", columns, late=True), *section.finish,
                ):  # fmt: skip
                    if sql is not None:
                        await connection.prepare(sql)
    finally:
        await connection.close()
