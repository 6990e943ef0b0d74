"""What an import did, table by table: every row that was read is new, there already, or left out with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

NAMED_MAX = 1000


@dataclass
class Note:
    """Something that was done to rows, and which they were; of many rows only the first are named."""

    count: int = 0
    rows: list[str] = field(default_factory=list)

    def add(self, row: str) -> None:
        """One more row."""
        self.count += 1
        if len(self.rows) < NAMED_MAX:
            self.rows.append(row)


@dataclass
class TableReport:
    """What became of the rows of one table."""

    source: str
    target: str | None
    read: int = 0
    new: int = 0
    already_there: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    columns_left_out: Counter[str] = field(default_factory=Counter)
    notes: dict[str, Note] = field(default_factory=dict)

    def note(self, what: str, row: str) -> None:
        """Say of a row what was done to it."""
        self.notes.setdefault(what, Note()).add(row)


@dataclass
class Report:
    """What became of a dump; `stored` is false after a rehearsal."""

    tables: list[TableReport] = field(default_factory=list)
    other_files: list[str] = field(default_factory=list)
    stored: bool = False

    def of(self, source: str) -> TableReport:
        """The part about one table of the dump."""
        return next(table for table in self.tables if table.source == source)

    @property
    def new(self) -> int:
        """How many rows were stored."""
        return sum(table.new for table in self.tables)
