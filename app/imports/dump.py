"""Reads a folder of JSON exports, a file for each table, row by row: exact slices, positions, bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from app.client.exact import members

BLOCK_BYTES = 1024 * 1024
ROW_BYTES_MAX = 128 * 1024 * 1024
# How near the end of a block an error may be and still only mean that the row goes on in the next one.
_CUT_CHARACTERS = 64
_WHITESPACE = " \t\n\r"


class DumpRefused(Exception):
    """The dump cannot be imported, and nothing was. Each problem is a sentence that names file and line."""

    def __init__(self, problems: list[str], total: int | None = None) -> None:
        super().__init__(problems[0])
        self.problems = problems
        self.total = total or len(problems)


@dataclass(frozen=True)
class DumpFile:
    """One file of the dump, and the table whose rows it holds."""

    table: str
    path: Path

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Row:
    """One row: the line it starts in, and the exact text of each of its columns."""

    line: int
    columns: dict[str, bytes]


def files_of(folder: Path) -> tuple[list[DumpFile], list[str]]:
    """The files of a dump by table, and the names of what is no part of it. Raises `DumpRefused`."""
    if not folder.is_dir():
        raise DumpRefused([f"{folder} is no folder; name the folder that holds the exported tables."])
    found: dict[str, DumpFile] = {}
    others: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix not in {".json", ".jsonl"} or not path.is_file():
            others.append(path.name)
            continue
        table = path.stem.removeprefix("public.")
        if table in found:
            raise DumpRefused([f"{found[table].path.name} and {path.name} both hold the table {table}; keep one."])
        found[table] = DumpFile(table, path)
    if not found:
        raise DumpRefused([f"{folder} holds no .json or .jsonl file."])
    return list(found.values()), others


def rows_of(file: DumpFile, advance: Callable[[int], None] = lambda _bytes: None) -> Iterator[Row]:
    """Every row of a file, in order; `advance` is told the bytes as they are read.

    A `.json` file is one array of objects, a `.jsonl` file one object in each line. Raises `DumpRefused` with file,
    line and column where it is anything else.
    """
    with file.path.open("rb") as stream:
        text = _Text(file.path.name, stream, advance)
        yield from text.lines() if file.path.suffix == ".jsonl" else text.array()


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


# Numbers are only stepped over. Objects come as their pairs, so that a column that is named twice shows.
_STEPPER = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse_constant, object_pairs_hook=list)


class _Text:
    """The text of a file, a window at a time. Latin-1 keeps byte offsets; rows are cut from the bytes."""

    def __init__(self, name: str, stream: BufferedReader, advance: Callable[[int], None]) -> None:
        self._name, self._stream, self._advance = name, stream, advance
        self._text, self._at, self._ended = "", 0, False
        # A place in the window before which all lines are counted, and its line and column.
        self._counted, self._line, self._column = 0, 1, 1

    def array(self) -> Iterator[Row]:
        self._expect("[")
        if self._peek() == "]":
            self._at += 1
        else:
            while True:
                yield self._row()
                if self._peek() == "]":
                    self._at += 1
                    break
                self._expect(",")
        if self._peek():
            self._refuse("there is more after the end of the array")

    def lines(self) -> Iterator[Row]:
        while self._peek():
            row = self._row()
            if self._peek(" \t\r") not in ("\n", ""):
                self._refuse("there is more in the line than one row")
            yield row

    def _row(self) -> Row:
        if self._peek() != "{":
            self._refuse("a row must be an object")
        self._forget()
        pairs, end = self._step()
        self._count(self._at)
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            self._refuse(f"the row names a column twice: {max(names, key=names.count)}")
        data = self._text[self._at : end].encode("latin-1")
        try:
            data.decode()
        except UnicodeDecodeError as error:
            self._refuse("the text is not UTF-8", self._at + error.start)
        self._at = end
        return Row(self._line, members(data))

    def _step(self) -> tuple[list[tuple[str, Any]], int]:
        while True:
            try:
                return _STEPPER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                goes_on = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _CUT_CHARACTERS
                if self._ended or not goes_on:
                    self._refuse(error.msg[0].lower() + error.msg[1:].removesuffix(" at"), error.pos)
            except ValueError as error:
                self._refuse(str(error))
            except RecursionError:
                self._refuse("the row nests too deep")
            if len(self._text) - self._at > ROW_BYTES_MAX:
                self._refuse(f"the row is larger than {ROW_BYTES_MAX // 1024 // 1024} MiB, or a text in it has no end")
            self._read()

    def _peek(self, skipped: str = _WHITESPACE) -> str:
        """The next character that is not skipped; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in skipped:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._forget()
            self._read()

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            self._refuse(f"expected {mark}" if self._peek() else f"the file ends where {mark} is expected")
        self._at += 1

    def _read(self) -> None:
        """More text; as much again as there is, so that a large row is stepped over few times."""
        block = self._stream.read(max(BLOCK_BYTES, len(self._text) - self._at))
        self._ended = not block
        self._text += block.decode("latin-1")
        self._advance(len(block))

    def _forget(self) -> None:
        if self._at >= BLOCK_BYTES or self._at == len(self._text):
            self._count(self._at)
            self._text, self._at, self._counted = self._text[self._at :], 0, 0

    def _count(self, at: int) -> None:
        self._line, self._column = self._position(at)
        self._counted = at

    def _position(self, at: int) -> tuple[int, int]:
        """Line and column of a place that comes after those that are counted."""
        lines = self._text.count("\n", self._counted, at)
        if not lines:
            return self._line, self._column + at - self._counted
        return self._line + lines, at - self._text.rfind("\n", 0, at)

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        line, column = self._position(self._at if at is None else at)
        raise DumpRefused([f"{self._name}:{line}:{column}: {why}."])
