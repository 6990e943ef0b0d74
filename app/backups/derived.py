"""What METADATA tells of a section: its members and their types, its key, its order, what it refers to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from sqlalchemy import JSON, Column, Index, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from app.backups.section import Field, Parent, Section, Unique

# Tables whose rows have a number for their natural key, and the natural key.
NATURAL = {"memory_spaces": "name", "stream_paths": "path", "submission_sessions": "session_key"}
# Columns that hold such a number: what the natural key is called in the file, and whose it is.
NUMBERS = {
    ("attachments", "path_number"): ("path", "stream_paths"),
    ("conversation_batches", "number"): ("path", "stream_paths"),
    ("conversation_checkpoints", "number"): ("path", "stream_paths"),
    ("conversation_streams", "number"): ("path", "stream_paths"),
    ("memory_vectors", "space_number"): ("space", "memory_spaces"),
    ("submissions", "session_number"): ("session_key", "submission_sessions"),
}


def derived(table: Table, left_out: set[str], **given: Any) -> Section:
    """The section of a table but for the columns that are left out; `given` is what of it is declared otherwise."""
    out = left_out | {"tenant_id"}
    fields = tuple(field_of(table, c) for c in table.columns if c.name not in out and c.computed is None)
    key: tuple[str, ...] = given.get("key") or _key(table)
    joins, resolves = _numbers(table)
    told = {
        "fields": fields,
        "key": key,
        "order": tuple(field.reads for name in key for field in fields if field.name == name),
        "joins": joins,
        "resolves": resolves,
        "parents": tuple(_parents(table)),
        "uniques": tuple(_uniques(table, {field.name for field in fields}, set(key))),
    }
    return Section(**{"name": str(table.name), "table": str(table.name), **told, **given})


def field_of(table: Table, column: Column[Any]) -> Field:
    """The member that a column is in the file."""
    # What METADATA gives are strings of its own kind.
    name = str(column.name)
    if (table.name, name) in NUMBERS:
        file, other = NUMBERS[table.name, name]
        return Field(file, 'text COLLATE "C"', f"{other}.{NATURAL[other]}", f"{other}.number", name)
    kind = column.type.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    reads, writes = f't."{name}"', f'r."{name}"'
    if isinstance(column.type, JSONB) and not column.nullable:
        writes = f"COALESCE({writes}, 'null'::jsonb)"
    elif isinstance(column.type, JSON):
        # A string with the exact text: `json` keeps it byte for byte, and a null of JSON's is not taken for none.
        reads, writes, kind = f"{reads}::text", f"{writes}::{kind}", "TEXT"
    return Field(name, kind, reads, writes, name, late=_closes_circle(table, name))


def _closes_circle(table: Table, name: str) -> bool:
    """Whether it refers to what itself refers to such rows: it is written when the rows it leads to are there."""
    return any(
        key.use_alter and name in key.column_keys for key in table.foreign_key_constraints if name != "tenant_id"
    )


def _key(table: Table) -> tuple[str, ...]:
    if table.name in NATURAL:
        return (NATURAL[table.name],)
    return tuple(name for name in _named(table, table.primary_key.columns) if name != "tenant_id")


def _numbers(table: Table) -> tuple[str, str]:
    joins = resolves = ""
    for column in table.columns:
        if (table.name, column.name) in NUMBERS:
            file, other = NUMBERS[table.name, column.name]
            joins += f" JOIN {other} ON {other}.tenant_id = t.tenant_id AND {other}.number = t.{column.name}"
            resolves += f' JOIN {other} ON {other}.tenant_id = $1 AND {other}.{NATURAL[other]} = r."{file}"'
    return joins, resolves


def _named(table: Table, columns: Iterable[Column[Any]]) -> tuple[str, ...]:
    """What columns are called in the file."""
    return tuple(NUMBERS.get((table.name, column.name), (str(column.name),))[0] for column in columns)


def _parents(table: Table) -> Iterable[Parent]:
    for key in sorted(table.foreign_key_constraints, key=_name_of):
        other = key.referred_table
        if other.name != "tenants":
            columns, of = _named(table, key.columns)[1:], _named(other, (e.column for e in key.elements))[1:]
            yield Parent(str(other.name), columns, (NATURAL.get(other.name, "number"),) if of == ("number",) else of)


def _uniques(table: Table, known: set[str], key: set[str]) -> Iterable[Unique]:
    """Those that a row of the file can break: not with its key, and not by what it does not say."""
    for constraint in (*sorted(table.constraints, key=_name_of), *sorted(table.indexes, key=_name_of)):
        unique = isinstance(constraint, UniqueConstraint) or getattr(constraint, "unique", False)
        columns = _named(table, getattr(constraint, "columns", ()))[1:]
        if unique and set(columns) <= known and not key <= set(columns):
            predicate = cast("Index", constraint).dialect_options["postgresql"].get("where")
            yield Unique(_name_of(constraint), columns, None if predicate is None else str(predicate))


def _name_of(constraint: Any) -> str:
    return str(constraint.name)
