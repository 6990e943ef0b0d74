"""One section of a backup, and the SQL of both directions: how its rows become lines, and how lines become rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A member of a section's rows.

    `reads` is its SQL where `t` is a row of the section's table; `writes` that of the value of `column`, where `r` is a
    row of the file. `type` is what the member is read as. `late` ones are written when every section has its rows.
    Without `column`, the section's own statement makes something of it.
    """

    name: str
    type: str
    reads: str
    writes: str
    column: str | None
    late: bool = False


@dataclass(frozen=True)
class Parent:
    """Members that are the key `of` a row in another section, or in the same one, unless one of them is null."""

    section: str
    columns: tuple[str, ...]
    of: tuple[str, ...]


@dataclass(frozen=True)
class Unique:
    """Members of which no two rows of a tenant have the same values, among the rows that fit `predicate`, if any.

    The predicate names columns without an alias; they are called in the file as in the table.
    """

    name: str
    columns: tuple[str, ...]
    predicate: str | None = None


@dataclass(frozen=True)
class Section:
    """Rows of one table, each a JSON object of `fields`, in the order of `order`; `where` says which rows, `t`.

    `key` are the members that name a row within the tenant; none where there is one row at most. `joins` finds what a
    row is joined to when it is read, `resolves` when it is written: for the tenant `$1`, from `r`. `companions` are
    sections without which this one says less than it seems to. `fills` are further columns that are written, with their
    SQL. `statement` is a section's own INSERT. `finish` are statements for the tenant `$1` that run where rows of it
    were written, when every section has its rows. `also` are further tables whose rows are in the section. One without
    a `table` holds bytes of the object store, and has no SQL.

    What a restore does where a row is there: `there` says which rows `t` count. `outdone` says of a line `e`, its `row`
    and what is `held`, both JSON, whether what is there has all that the file has and more: then it is kept; `back`,
    of the same, whether it is what the file has, but for content that it has lost: then `brings_back`, an UPDATE, gives
    it that again, where conflicts are skipped too. Rows that say something only with the one that they are `part_of` go
    with it, and are never mixed with those of its namesake. Unless it `changes`, what is there stays, whatever the file
    says; unless it `conflicts`, that is no conflict; unless it is `emptied`, a replacement leaves it. `holds_documents`
    where bodies of documents are in it, which may hold what is secret by now, or what says that it is.
    """

    name: str
    table: str | None
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    joins: str = ""
    resolves: str = ""
    where: str = "true"
    parents: tuple[Parent, ...] = ()
    uniques: tuple[Unique, ...] = ()
    companions: tuple[str, ...] = ()
    fills: tuple[tuple[str, str], ...] = ()
    statement: str | None = None
    finish: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    there: str = "true"
    outdone: str = "false"
    back: str = "false"
    brings_back: str = ""
    part_of: Parent | None = None
    changes: bool = True
    conflicts: bool = True
    emptied: bool = True
    holds_documents: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The members of its rows, in the order of the file."""
        return tuple(field.name for field in self.fields)

    def select(self) -> str:
        """The rows of the tenant `$1` as one column of JSON without raw control characters, in the section's order."""
        order = f" ORDER BY {', '.join(self.order)}" if self.order else ""
        return f"SELECT row_to_json(f) FROM (SELECT {_members(self.fields)} FROM {self._source()}{order}) AS f"

    def count(self) -> str:
        """How many rows `select` gives."""
        return f"SELECT count(*) FROM {self._source()}"

    def rows(self, staged: str, columns: Collection[str]) -> str:
        """What is behind FROM for staged lines: `s` is one, with its `line` and its `row`, `r` are its members.

        `staged` is a table with a column `line` that counts, and `row json`; `columns` are those that the file has,
        and what this release does not know of them is left out.
        """
        known = ", ".join(f'"{field.name}" {field.type}' for field in self._known(columns))
        return f'{staged} AS s CROSS JOIN LATERAL json_to_record(s."row") AS r ({known})'

    def existing(self, staged: str, columns: Collection[str]) -> str:
        """For each staged line whose key the tenant `$1` has: the `line`, its `row`, and as `held` what is there.

        Both are JSON objects of the file's columns in the file's order: where they are equal as text, nothing differs.
        """
        fields = {field.name: field for field in self.fields}
        held = _members(fields[name] for name in columns if name in fields)
        same = [f'{field.reads} = r."{field.name}"' for field in self.fields if field.name in self.key]
        return (
            f'SELECT s.line, s."row", (SELECT row_to_json(f) FROM (SELECT {held}) AS f) AS held'
            f" FROM {self.rows(staged, columns)} CROSS JOIN {self.table} AS t{self.joins}"
            f" WHERE {' AND '.join(['t.tenant_id = $1', *same, self.there])}"
        )

    def insert(self, staged: str, columns: Collection[str], where: str = "true", into: str | None = None) -> str:
        """Store the staged lines that fit `where` (of `s` and `r`) for the tenant `$1`, in their order.

        A column that the file does not have takes its default, and so do numbers that only give an order. `into` is
        another table of the same columns. A row that is named in the file by what is not there is left out.
        """
        if self.statement is not None:
            return self.statement.format(rows=self.rows(staged, self.columns), resolves=self.resolves, where=where)
        written = [*self._written(columns, late=False), *self.fills]
        targets = ", ".join(["tenant_id", *(f'"{column}"' for column, _ in written)])
        values = ", ".join(["$1", *(value for _, value in written)])
        return (
            f"INSERT INTO {into or self.table} ({targets}) SELECT {values}"
            f" FROM {self.rows(staged, columns)}{self.resolves} WHERE {where} ORDER BY s.line"
        )

    def update(self, staged: str, columns: Collection[str], where: str = "true", *, late: bool = False) -> str | None:
        """Give the rows of the tenant `$1` what the staged lines of the same key say; with `late`, the late members.

        A column that the file does not have takes its default, as in a row that is new. None where there is nothing
        that could be written, or the row is not known by columns of its own.
        """
        names = {field.column for field in self.fields if field.name in self.key}
        written = [(column, value) for column, value in self._written(columns, late=late) if column not in names]
        if not written or None in names:
            return None
        if not late:
            untold = [f.column for f in self.fields if f.name not in columns and f.column is not None and not f.late]
            written += [*((column, "DEFAULT") for column in untold), *self.fills]
        changes = ", ".join(f'"{column}" = {value}' for column, value in written)
        same = [f't."{field.column}" = {field.writes}' for field in self.fields if field.name in self.key]
        return (
            f"UPDATE {self.table} AS t SET {changes} FROM {self.rows(staged, columns)}{self.resolves}"
            f" WHERE {' AND '.join(['t.tenant_id = $1', *same, f'({where})'])}"
        )

    def _source(self) -> str:
        return f"{self.table} AS t{self.joins} WHERE t.tenant_id = $1 AND {self.where}"

    def _known(self, columns: Collection[str]) -> list[Field]:
        return [field for field in self.fields if field.name in columns]

    def _written(self, columns: Collection[str], *, late: bool) -> list[tuple[str, str]]:
        return [(f.column, f.writes) for f in self._known(columns) if f.column is not None and f.late == late]


def _members(fields: Iterable[Field]) -> str:
    return ", ".join(f'{field.reads} AS "{field.name}"' for field in fields)
