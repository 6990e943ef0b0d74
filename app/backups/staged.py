"""Rows of a section that lie in a temporary table."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from app.backups.section import Section

# What PostgreSQL says of rows that it cannot take, whoever else writes: a value that is none, a column that the file
# does not have, a language that it does not know.
UNACCEPTABLE = (
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedObjectError,
)


@dataclass(frozen=True)
class Staged:
    """The rows of a section: in which table, with which columns, and how many."""

    section: Section
    table: str
    columns: tuple[str, ...]
    rows: int

    @property
    def fates(self) -> str:
        """The table that says what becomes of rows that are not simply new."""
        return f"{self.table}_fates"

    def source(self) -> str:
        """What is behind FROM: `s` is a line, `r` its members."""
        return self.section.rows(self.table, self.columns)
