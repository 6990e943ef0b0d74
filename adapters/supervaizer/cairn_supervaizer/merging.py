"""Merges two changes of one object: what was known, what it became here, and what it became elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final


class MergeConflictError(Exception):
    """Both sides changed the same member, differently; `member` is its JSON Pointer."""

    def __init__(self, member: str) -> None:
        super().__init__(member)
        self.member = member


class _Absent:
    """Stands for a member that is not there."""


ABSENT: Final = _Absent()


def merged(known: Mapping[str, Any] | None, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """What an object becomes when what changed from `known` to `ours` is done to `theirs`.

    Members that `ours` leaves out stay, as Supervaizer's saves are shallow merges. Lists are united. A member that
    both changed, differently, is a `MergeConflictError`; without `known` nobody can tell who changed it, and ours is
    taken, but no element of a list is lost.
    """
    result = dict(theirs)
    merge = _Merge(unknown=known is None)
    for name, value in ours.items():
        found = merge.value((known or {}).get(name, ABSENT), value, theirs.get(name, ABSENT), f"/{_escaped(name)}")
        if found is ABSENT:
            result.pop(name, None)
        else:
            result[name] = found
    return result


class _Merge:
    def __init__(self, *, unknown: bool) -> None:
        self._unknown = unknown

    def value(self, base: Any, ours: Any, theirs: Any, at: str) -> Any:
        if _same(ours, base):
            # Not ours to say; unless nobody has it, which also means that nothing is there to be changed.
            return theirs
        if _same(theirs, base) or _same(theirs, ours):
            return ours
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return self._members(base if isinstance(base, dict) else {}, ours, theirs, at)
        if isinstance(ours, list) and isinstance(theirs, list):
            return self._elements(base if isinstance(base, list) else [], ours, theirs, at)
        if self._unknown:
            return ours
        raise MergeConflictError(at)

    def _members(self, base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], at: str) -> dict[str, Any]:
        result = {}
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            before, mine, yours = (side.get(name, ABSENT) for side in (base, ours, theirs))
            found = self.value(before, mine, yours, f"{at}/{_escaped(name)}")
            if found is not ABSENT:
                result[name] = found
        return result

    def _elements(self, base: list[Any], ours: list[Any], theirs: list[Any], at: str) -> list[Any]:
        # Each element that was known is looked for on both sides; what is left over was added there.
        here, there = _places(base, ours), _places(base, theirs)
        result = [*theirs]
        for place, element in enumerate(base):
            mine = ours[here[place]] if place in here else ABSENT
            yours = theirs[there[place]] if place in there else ABSENT
            found = self.value(element, mine, yours, f"{at}/{place}")
            if place in there:
                result[there[place]] = found
        kept = [element for element in result if element is not ABSENT]
        added = {_text(theirs[place]) for place in set(range(len(theirs))) - set(there.values())}
        new = (ours[place] for place in range(len(ours)) if place not in set(here.values()))
        return kept + [element for element in new if _text(element) not in added]


def _places(base: list[Any], side: list[Any]) -> dict[int, int]:
    """Where the elements of `base` are in `side`: equal ones first, then objects that changed in place."""
    free: dict[str, list[int]] = {}
    for place in reversed(range(len(side))):
        free.setdefault(_text(side[place]), []).append(place)
    found = {}
    for place, element in enumerate(base):
        if equal := free.get(_text(element)):
            found[place] = equal.pop()
    taken = set(found.values())
    for place, element in enumerate(base):
        is_there = place < len(side) and place not in taken
        if place not in found and is_there and isinstance(element, dict) and isinstance(side[place], dict):
            found[place] = place
    return found


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return one is not ABSENT and other is not ABSENT and _text(one) == _text(other)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
