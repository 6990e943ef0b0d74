"""Brings an `entities.json`, as TinyDB wrote it, into a store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from supervaizer.lifecycle import EntityStatus

from cairn_supervaizer.keys import document_id
from cairn_supervaizer.objects import Objects, text_of
from cairn_supervaizer.options import Options
from cairn_supervaizer.reload import Rejected
from cairn_supervaizer.secrecy import cut

STATUSES: Final = frozenset(status.value for status in EntityStatus)
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {"Job": ("name", "agent_name"), "Case": ("job_id", "name")}


@dataclass
class Report:
    """What became of each object of a file."""

    imported: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    rejected: list[Rejected] = field(default_factory=list)


def read_tables(file: Path) -> dict[str, list[Any]]:
    """The objects of each table in the order in which they were first saved. No file of TinyDB is a `ValueError`."""
    try:
        tables = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} is no TinyDB file: {error}") from error
    if not isinstance(tables, dict) or not all(isinstance(rows, dict) for rows in tables.values()):
        raise ValueError(f"{file} is no TinyDB file: it must be an object of tables, each an object of rows")
    try:
        # The file has them in the order of their numbers as text (1, 10, 2).
        return {kind: [rows[row] for row in sorted(rows, key=int)] for kind, rows in tables.items()}
    except ValueError as error:
        raise ValueError(f"{file} is no TinyDB file: a row's name is no number") from error


def import_tables(
    options: Options, tables: Mapping[str, list[Any]], progress: Callable[[str, int, int], None]
) -> Report:
    """Store what is not there yet, without secrets, and tell of each object done (type, done, of how many).

    An object that is there already is unchanged, or rejected where it differs. So the same file again changes nothing.
    """
    objects = Objects(options, options.store)
    report = Report()
    try:
        for kind, paths in options.secrets.items():
            objects.rule(kind, paths, options.history)
        for kind, rows in tables.items():
            for done, (row, why_not) in enumerate(_judged(kind, rows), 1):
                why = why_not or _store(objects, options, kind, row, report)
                if why is not None:
                    report.rejected.append(Rejected(kind, row.get("id") if isinstance(row, dict) else None, why))
                progress(kind, done, len(rows))
    finally:
        objects.close()
    return report


def _judged(kind: str, rows: list[Any]) -> Iterator[tuple[Any, str | None]]:
    """Each row, and why it cannot be imported if it cannot."""
    seen: set[str] = set()
    for row in rows:
        why = _fault(kind, row)
        if why is None:
            key = document_id(row["id"])
            why = "another row of the file has this id" if key in seen else None
            seen.add(key)
        yield row, why


def _fault(kind: str, row: Any) -> str | None:
    if not isinstance(row, dict):
        return "it is no object"
    if not row.get("id"):
        return "it has no id"
    if missing := [name for name in REQUIRED.get(kind, ()) if not isinstance(row.get(name), str)]:
        return f"it has no {' and no '.join(missing)}"
    if kind in REQUIRED and row.get("status") not in STATUSES:
        return f"{row.get('status')!r} is no status"
    return None


def _store(objects: Objects, options: Options, kind: str, row: dict[str, Any], report: Report) -> str | None:
    """Why it was not stored, if it was not."""
    cut(row, options.secrets.get(kind, ()))
    key = document_id(row["id"])
    try:
        created = objects.create(kind, key, text_of(row))
    except ValueError as error:
        return str(error)
    if created is not None:
        report.imported[kind] += 1
        return None
    found = objects.get(kind, key)
    if found is not None and found.value() == row:
        report.unchanged[kind] += 1
        return None
    return "another object has this id in the store, and stays as it is"
