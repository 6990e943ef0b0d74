"""Every foreign key leads an index of its own table, so a deletion reads no whole table for each row it removes."""

from __future__ import annotations

import pytest
from sqlalchemy import ForeignKeyConstraint, Table, UniqueConstraint

from app.tables import METADATA

REFERENCES = [
    pytest.param(table, reference, id=str(reference.name))
    for table in METADATA.sorted_tables
    for reference in sorted(table.foreign_key_constraints, key=lambda found: str(found.name))
]


def leading(table: Table, count: int) -> list[set[str]]:
    """The first columns, so many, of each of the table's keys and indexes."""
    keys = [table.primary_key, *(found for found in table.constraints if isinstance(found, UniqueConstraint))]
    columns = [list(key.columns) for key in keys] + [list(index.expressions) for index in table.indexes]
    return [{str(getattr(column, "name", column)) for column in found[:count]} for found in columns]


@pytest.mark.parametrize(("table", "reference"), REFERENCES)
def test_the_columns_of_a_reference_lead_an_index(table: Table, reference: ForeignKeyConstraint) -> None:
    assert set(reference.column_keys) in leading(table, len(reference.column_keys))
