"""Secret paths: cuts what lies there out of a JSON text, before anything of it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from app.documents.splicing import Edit, Walk, removal, skipped, spliced

ANY = "*"
PATHS_MAX, SEGMENTS_MAX = 100, 32
_POINTER = re.compile(r"(/([^/~\x00]|~[01])*)+").fullmatch
# However PostgreSQL reads the place in an array.
_IS_PLACE = re.compile(r"\s*[-+]?[0-9]+", re.ASCII).fullmatch
# In a tree of paths: here one ends.
_END = None
_Tree = dict[str | None, Any]


def segments(pointer: str) -> list[str]:
    """The segments of a JSON Pointer (RFC 6901) that names something below the top. Raises `ValueError`."""
    if not _POINTER(pointer):
        raise ValueError("must be a JSON Pointer such as /account/api_key")
    found = _segments(pointer)
    if len(found) > SEGMENTS_MAX:
        raise ValueError(f"must have at most {SEGMENTS_MAX} segments")
    return found


def _segments(pointer: str) -> list[str]:
    return [segment.replace("~1", "/").replace("~0", "~") for segment in pointer[1:].split("/")]


class SecretPaths:
    """JSON Pointers in which `*` stands for every member or element."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._tree: _Tree = {}
        for path in paths:
            node = self._tree
            for segment in _segments(path):
                node = node.setdefault(segment, {})
            node[_END] = {}

    def cut(self, text: bytes) -> bytes:
        """The text without what lies at the paths; the same object where nothing does.

        A member goes with its name. An element becomes null, so that the others keep their places: to cut twice is to
        cut once.
        """
        if not self._tree:
            return text
        edits: list[Edit] = []
        self._cut(text, 0, [self._tree], edits)
        return spliced(text, edits)

    def _cut(self, text: bytes, start: int, nodes: list[_Tree], edits: list[Edit]) -> int:
        if text[start] not in b"[{":
            return skipped(text, start)
        is_object = text[start] == 0x7B
        stays = False
        walk = Walk(text, start)
        for item in walk:
            below = [node[key] for node in nodes for key in (item.name, ANY) if key in node]
            if not any(_END in node for node in below):
                stays = True
                if below:
                    item.end = self._cut(text, item.value, below, edits)
            elif is_object:
                edits.append(removal(text, item, is_first=not stays))
            else:
                stays = True
                item.end = skipped(text, item.value)
                if text[item.value : item.end] != b"null":
                    edits.append(Edit(item.value, item.end, (b"null",)))
        return walk.end


@lru_cache(maxsize=1024)
def secret_paths(paths: tuple[str, ...]) -> SecretPaths:
    """The paths, ready to cut."""
    return SecretPaths(paths)


def below(member: str, paths: Sequence[str]) -> SecretPaths:
    """The paths within a member of a larger text."""
    return secret_paths(tuple(f"/{member}{path}" for path in paths))


def reaches(paths: Sequence[str], pointer: str) -> bool:
    """Whether what a pointer names is secret, holds a secret or lies within one, whatever the place in an array."""
    asked = segments(pointer)
    return any(all(_meet(mine, theirs) for mine, theirs in zip(segments(path), asked, strict=False)) for path in paths)


def _meet(mine: str, theirs: str) -> bool:
    return mine in (ANY, theirs) or (_IS_PLACE(mine) is not None and _IS_PLACE(theirs) is not None)
