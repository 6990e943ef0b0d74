"""Cuts secrets out of objects before they leave the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

SECRET_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": ("/agent_parameters",),
    "Case": ("/account/api_key",),
}
"""The members that hold secrets by Supervaizer's own models, as JSON Pointers by type; `*` is every member."""


def paths_by_type(more: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The secret paths of every type that has some, with more of them. One that is no pointer is a `ValueError`."""
    found = {kind: list(paths) for kind, paths in SECRET_PATHS.items()}
    for kind, paths in more.items():
        if isinstance(paths, str):
            raise ValueError(f"secret_paths[{kind!r}] is one string; give a list of JSON Pointers")
        for path in paths:
            if not path.startswith("/"):
                raise ValueError(f"{path!r} is no JSON Pointer below the object; one begins with '/'")
            if path not in found.setdefault(kind, []):
                found[kind].append(path)
    return {kind: tuple(paths) for kind, paths in found.items()}


def cut(value: Any, paths: Iterable[str]) -> None:
    """Remove the members at these paths from a JSON value, in place; what is not there needs no removing."""
    for path in paths:
        _cut(value, [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]])


def _cut(value: Any, steps: list[str]) -> None:
    step, further = steps[0], steps[1:]
    for at in _places(value, step):
        if further:
            _cut(value[at], further)
        elif isinstance(value, dict):
            del value[at]
        else:
            # The place of an element is part of what others refer to (`updates` by index), so it stays.
            value[at] = None


def _places(value: Any, step: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value) if step == "*" else [step] if step in value else []
    if isinstance(value, list):
        if step == "*":
            return list(range(len(value)))
        return [int(step)] if step.isdecimal() and int(step) < len(value) else []
    return []
