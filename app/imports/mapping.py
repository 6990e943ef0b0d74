"""How a table of another system becomes a table of the record: column by column, and what is kept of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.db.digest import digest_of
from app.http.fields import JsonObject
from app.imports.dump import DumpRefused, Row
from app.imports.fields import NULL, Read, searchable
from app.tables import METADATA

Record = dict[str, Any]
# Under this member of `metadata` or `extras` stands what the record has no column for.
KEPT_UNDER = "lucky"


@dataclass
class Place:
    """A row on its way: what it becomes, what is kept beside, and what the report shall say of it."""

    row: Row
    record: Record
    kept: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Why the whole row is left out.
    omitted: str | None = None

    def exact(self, column: str) -> bytes | None:
        """The text of a column of the row; None where it is absent or null."""
        data = self.row.columns.get(column, NULL)
        return None if data == NULL else data


@dataclass(frozen=True)
class TableMapping:
    """A table of the dump and the table it becomes.

    `columns` says which column becomes which, and how it is read; `required` must not be null. What has no place is
    kept in the `keeps` column, or named in the report. `finish` derives what more columns need. `extra` are columns of
    the staged rows alone, with their SQL types; `references` the tables that columns point into.
    """

    source: str
    target: str
    columns: Mapping[str, tuple[str, Read]]
    required: tuple[str, ...]
    keeps: str | None = None
    passed_over: tuple[str, ...] = ()
    finish: Callable[[Place], None] = lambda _place: None
    extra: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ("id",)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # What a row needs to have a place, and why it is left out without.
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def id_column(self) -> str:
        """The column that names a row in reports."""
        return self.required[0]

    @property
    def label(self) -> str:
        """The same column, as it is called in the record."""
        return self.columns[self.id_column][0]

    @property
    def staged(self) -> list[str]:
        """The columns of the staged rows, in order."""
        targets = [target for target, _ in self.columns.values()]
        derived = [name for name in (*self.defaults, *self.extra) if name not in targets]
        columns = dict.fromkeys([*targets, *derived])
        if self.keeps:
            columns[self.keeps] = None
        if "digest" in METADATA.tables[self.target].columns:
            columns["digest"] = None
        return ["line", *columns]

    @property
    def stored(self) -> list[str]:
        """Those of them that the table has."""
        return [name for name in self.staged if name in METADATA.tables[self.target].columns]

    def convert(self, file: str, row: Row) -> Place:
        """What a row becomes. Raises `DumpRefused`, naming file, line and column."""
        place = Place(row, dict(self.defaults))
        for name, data in row.columns.items():
            if data != NULL:
                self._take(place, file, name, data)
        for name in self.required:
            if place.exact(name) is None:
                raise DumpRefused([f"{file}:{row.line}: the column {name} is missing."])
        place.omitted = next((why for name, why in self.needs.items() if place.record.get(name) is None), None)
        try:
            self.finish(place)
            if self.keeps:
                place.record[self.keeps] = _with_kept(place.record.get(self.keeps), place.kept)
        except ValueError as error:
            raise DumpRefused([f"{file}:{row.line}: {error}."]) from error
        if "digest" in METADATA.tables[self.target].columns:
            given = {name: value for name, value in place.record.items() if value is not None}
            place.record["digest"] = digest_of({"imported_from": self.source, **given})
        place.record["line"] = row.line
        return place

    def _take(self, place: Place, file: str, name: str, data: bytes) -> None:
        try:
            if name in self.columns:
                target, read = self.columns[name]
                place.record[target] = read(data)
            elif self.keeps and name not in self.passed_over:
                place.kept[name] = searchable(data)
            else:
                place.left_out.append(name)
        except (ValueError, RecursionError) as error:
            raise DumpRefused([f"{file}:{place.row.line}: the column {name} {error}."]) from error


def _with_kept(given: bytes | None, kept: Mapping[str, bytes]) -> bytes:
    """An object with what is kept under its own member; what is no object is itself kept there."""
    if given is not None and not given.startswith(b"{"):
        kept, given = {**kept, "value": given}, None
    base = given or b"{}"
    if not kept:
        return JsonObject(base)
    inner = b"{" + b",".join(b'"%b":%b' % (_name(name), data) for name, data in kept.items()) + b"}"
    comma = b"," if base[1:].strip() != b"}" else b""
    return JsonObject.checked(JsonObject(base.rstrip()[:-1] + comma + b'"%b":' % KEPT_UNDER.encode() + inner + b"}"))


def _name(name: str) -> bytes:
    return json.dumps(name)[1:-1].encode()
