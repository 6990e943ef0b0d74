"""Changes JSON text in place: what is not touched keeps its exact bytes, spacing, order and number text.

The text is one valid JSON value, without space around it. It is walked once, whatever its shape, and never built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).match
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]++").match
_SPACE = re.compile(rb"[ \t\n\r]*+").match
_MEMBER = re.compile(rb'([ \t\n\r]*+)("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL).match
_AFTER = re.compile(rb"[ \t\n\r]*+([,\]}])").match
# Up to the next bracket, over strings.
_BRACKETS = re.compile(
    rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+){0,1000}+(?:([\[{])|([\]}]))?', re.DOTALL
)
_OPENING, _QUOTE = (0x5B, 0x7B), 0x22


class Edit(NamedTuple):
    """The bytes from `start` to before `end` become `pieces`."""

    start: int
    end: int
    pieces: tuple[bytes, ...] = ()


class NotAnObject(ValueError):
    """Members are to be merged with what has none."""


def spliced(text: bytes, edits: list[Edit]) -> bytes:
    """The text with its edits, which do not overlap; the same object where there are none."""
    if not edits:
        return text
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits):
        parts += (text[position : edit.start], *edit.pieces)
        position = edit.end
    return b"".join((*parts, text[position:]))


def skipped(text: bytes, start: int) -> int:
    """Where the value that begins at `start` ends."""
    opening = text[start]
    if opening not in _OPENING:
        found = (_STRING if opening == _QUOTE else _SCALAR)(text, start)
        assert found is not None
        return found.end()
    depth = 0
    for found in _BRACKETS.finditer(text, start):
        kind = found.lastindex
        if kind == 1:
            depth += 1
        elif kind == 2:
            depth -= 1
            if not depth:
                return found.end()
    raise AssertionError("valid JSON closes what it opens")


class Item:
    """A member of an object, or an element of an array: where it, its name, its value begin, and where it ends.

    Whoever walks into the value says where it ends; otherwise it is skipped.
    """

    __slots__ = ("end", "name", "name_start", "start", "value")

    def __init__(self, start: int, name_start: int, name: str, value: int) -> None:
        self.start, self.name_start, self.name, self.value, self.end = start, name_start, name, value, -1


class Walk:
    """The members of the object, or the elements of the array, that begins at `start`; then `end` is behind it."""

    def __init__(self, text: bytes, start: int) -> None:
        self.text, self.start, self.end = text, start, -1

    def __iter__(self) -> Iterator[Item]:
        text, position = self.text, self.start + 1
        is_object = text[self.start] == 0x7B
        place = 0
        inner = _SPACE(text, position).end()  # type: ignore[union-attr]
        if text[inner] in b"]}":
            self.end = inner + 1
            return
        while True:
            if is_object:
                found = _MEMBER(text, position)
                assert found is not None
                item = Item(position, found.end(1), _name(found[2]), found.end())
            else:
                value = _SPACE(text, position).end()  # type: ignore[union-attr]
                item = Item(position, value, str(place), value)
            yield item
            if item.end < 0:
                item.end = skipped(text, item.value)
            after = _AFTER(text, item.end)
            assert after is not None
            position, place = after.end(), place + 1
            if after[1] != b",":
                self.end = position
                return


def _name(quoted: bytes) -> str:
    return quoted[1:-1].decode() if b"\\" not in quoted else json.loads(quoted)


def removal(text: bytes, item: Item, *, is_first: bool) -> Edit:
    """What takes a member away with one comma: the one after it where no member before it stays, else that before."""
    end = item.end if item.end >= 0 else skipped(text, item.value)
    if not is_first:
        return Edit(item.start - 1, end)
    after = _AFTER(text, end)
    assert after is not None
    return Edit(item.start, after.end() if after[1] == b"," else after.start(1))


@dataclass(slots=True)
class _Change:
    """A member of a patch: where its name, its value begin and end; what lies below an object that is merged.

    `is_whole`: taken as it is, it holds no null that would remove something, and no name twice.
    """

    start: int
    value: int
    end: int
    below: dict[str, _Change] | None = None
    removes: bool = False
    is_whole: bool = True


class Patch:
    """A patch to merge into JSON objects: `deep` by RFC 7396, else member by member of the top, nulls as values.

    Raises `NotAnObject` where it is none and the merge is not deep.
    """

    def __init__(self, text: bytes, *, deep: bool) -> None:
        self.text, self.deep = text, deep
        self._top: _Change | None = None
        if text.startswith(b"{"):
            self._top = _Change(0, 0, len(text))
            self._read(self._top, deep=deep)
        elif not deep:
            raise NotAnObject("must be a JSON object")

    def _read(self, change: _Change, *, deep: bool) -> None:
        """Read the members of the object that a change begins with, and where it ends."""
        below: dict[str, _Change] = {}
        walk = Walk(self.text, change.value)
        for item in walk:
            found = _Change(item.name_start, item.value, -1)
            if deep and self.text[item.value] == 0x7B:
                self._read(found, deep=True)
                item.end = found.end
            else:
                item.end = found.end = skipped(self.text, item.value)
                found.removes = deep and self.text.startswith(b"null", item.value)
            if item.name in below or found.removes or not found.is_whole:
                change.is_whole = False
            below[item.name] = found
        change.below, change.end = below, walk.end

    def alone(self) -> bytes:
        """What merging it into nothing gives."""
        return self.text if self._top is None or not self.deep else b"".join(self._new(self._top))

    def into(self, stored: bytes) -> bytes:
        """What merging it into the stored text gives. Raises `NotAnObject` where that cannot be merged into."""
        if self._top is None:
            return self.text
        if not stored.startswith(b"{"):
            if not self.deep:
                raise NotAnObject("what is stored is no JSON object")
            return self.alone()
        edits: list[Edit] = []
        self._merge(stored, 0, self._top, edits)
        return spliced(stored, edits)

    def _merge(self, text: bytes, start: int, change: _Change, edits: list[Edit]) -> int:
        """Note how the object at `start` changes; where it ends. A name that comes twice is changed both times."""
        below = change.below or {}
        left = dict(below)
        last: Item | None = None
        walk = Walk(text, start)
        for item in walk:
            found = below.get(item.name)
            if found is not None:
                left.pop(item.name, None)
                if found.removes:
                    edits.append(removal(text, item, is_first=last is None))
                    continue
                if found.below is not None and text[item.value] == 0x7B:
                    item.end = self._merge(text, item.value, found, edits)
                else:
                    item.end = skipped(text, item.value)
                    edits.append(Edit(item.value, item.end, tuple(self._new(found))))
            last = item
        added = [found for found in left.values() if not found.removes]
        if added:
            edits.append(self._addition(text, start, last, added))
        return walk.end

    def _addition(self, text: bytes, start: int, last: Item | None, added: list[_Change]) -> Edit:
        """New members behind the last that stays, each spaced as that one is."""
        pieces: list[bytes] = []
        comma = b"," if last is None else b"," + text[last.start : last.name_start]
        for found in added:
            if last is not None or pieces:
                pieces.append(comma)
            pieces += self._member(found)
        place = start + 1 if last is None else last.end
        return Edit(place, place, tuple(pieces))

    def _member(self, change: _Change) -> list[bytes]:
        return [self.text[change.start : change.value], *self._new(change)]

    def _new(self, change: _Change) -> list[bytes]:
        """The text of a value that comes where none was, without the nulls that would have removed something."""
        if change.below is None or change.is_whole:
            return [self.text[change.value : change.end]]
        pieces: list[bytes] = []
        for found in change.below.values():
            if not found.removes:
                pieces += (b"," if pieces else b"{", *self._member(found))
        return [*(pieces or [b"{"]), b"}"]
