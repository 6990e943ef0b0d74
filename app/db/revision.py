"""Compares the schema of a database with the one that this code needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import asyncpg

_VERSIONS = Path(__file__).resolve().parents[2] / "alembic" / "versions"
_REVISION = re.compile(r'^revision = "(\w+)"$.*?^down_revision = (?:"(\w+)"|None)$', re.MULTILINE | re.DOTALL)


class SchemaRefused(Exception):
    """The database's schema is not the one this code needs; the message says what to do."""


class MigrationRefused(Exception):
    """A migration that cannot run now; the message says what to do."""


@dataclass(frozen=True)
class Revision:
    """The revision of a database beside the one that is needed."""

    current: str | None
    expected: str
    known: bool

    @property
    def fault(self) -> str | None:
        """What is wrong and what to do, in one sentence; None when the two are equal."""
        if self.current == self.expected:
            return None
        if self.current is None:
            return f"The database has no schema yet, and this code needs {self.expected}; run `cairn migrate`."
        if self.known:
            return (
                f"The database's schema is behind the code ({self.current}, needed is {self.expected});"
                " run `cairn migrate`."
            )
        return (
            f"The database's schema is ahead of the code ({self.current}, needed is {self.expected});"
            " start the release that it belongs to."
        )

    def require(self) -> None:
        """Raise `SchemaRefused` unless the two are equal."""
        if self.fault is not None:
            raise SchemaRefused(self.fault)


@cache
def revisions() -> tuple[str, ...]:
    """The revisions that this code knows, oldest first, read from the files so that no migration is imported."""
    below: dict[str | None, str] = {}
    for file in _VERSIONS.glob("*.py"):
        found = _REVISION.search(file.read_text(encoding="utf-8"))
        assert found is not None, f"{file.name} states no revision"
        below[found[2]] = found[1]
    ordered: list[str] = []
    at: str | None = below.get(None)
    while at is not None:
        ordered.append(at)
        at = below.get(at)
    assert ordered, "there are no migrations"
    return tuple(ordered)


async def revision_of(connection: asyncpg.Connection) -> Revision:
    """The revision of the database behind a connection."""
    current = None
    if await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL"):
        current = await connection.fetchval("SELECT version_num FROM alembic_version")
    known = revisions()
    return Revision(current, known[-1], current in known)
