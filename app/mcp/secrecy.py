"""Finds what may be a secret value in a configuration, so that it is refused before anything is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from app.mcp.errors import SecretRefused
from app.mcp.secret_names import Guard, guard_below, guard_of
from app.mcp.secret_text import asked, assignment, carries, is_known_form, is_reference_text

FOUND_MAX = 100
# Members of an object that name what others of it are the value of.
NAMING = frozenset({"name", "key", "header", "variable", "var", "field", "param", "parameter", "option"})
VALUES = frozenset({"value", "values", "val", "default", "content", "data"})
MESSAGE = (
    'must be a reference, such as {"secret_ref": "name"} or "${NAME}", since secret values are never stored;'
    ' where the name alone does not say that it is a secret, {"plain": …} says that it is none'
)


_SWITCH = re.compile(r"(?i:true|false|yes|no|on|off|[01])")


def refuse_secrets(pointer: str, config: bytes) -> None:
    """Raise `SecretRefused` naming, by JSON Pointer, every place of a configuration that may hold a secret value.

    The refusal never repeats a value. Where the name of a member is one, the object that has it is named.
    """
    found = list(islice(dict.fromkeys(_found(pointer, json.loads(config))), FOUND_MAX))
    if found:
        raise SecretRefused(
            f"{found[0]}: {MESSAGE}.", errors=[{"pointer": place, "message": MESSAGE} for place in found]
        )


def is_reference(value: Any) -> bool:
    """Whether this stands for a secret without being one: `{"secret_ref": …}` or `${NAME}`, after a scheme or not."""
    if isinstance(value, dict):
        name = value.get("secret_ref")
        return len(value) == 1 and isinstance(name, str) and 0 < len(name) <= 255 and not is_known_form(name)
    return isinstance(value, str) and is_reference_text(value)


def _found(pointer: str, config: Any) -> Iterator[str]:
    """The places in the order in which they stand; a guard goes down to everything below a name."""
    pending: list[tuple[str, Any, Guard]] = [(pointer, config, Guard.ANYTHING)]
    while pending:
        place, value, guard = pending.pop()
        if is_reference(value):
            continue
        if isinstance(value, dict):
            if guard < Guard.REFERENCES and _is_said_to_be_plain(value):
                if carries(str(value["plain"])):
                    yield f"{place}/plain"
                continue
            telling = {name for name in value if carries(name)}
            if telling:
                yield place
            pending += reversed(_members(place, value, guard, telling))
        elif isinstance(value, list):
            pending += reversed(_items(place, value, guard))
        elif not _may_stand(value, guard):
            yield place


def _members(place: str, value: dict[str, Any], guard: Guard, telling: set[str]) -> list[tuple[str, Any, Guard]]:
    """What is below a name that tells a secret is found where the name is.

    `{"name": "API_KEY", "value": …}` is read as a member of that name, as lists of variables and headers have it.
    """
    named = [text for name, text in value.items() if name.lower() in NAMING and isinstance(text, str)]
    found: list[tuple[str, Any, Guard]] = []
    for name, item in value.items():
        below = guard_below(guard, name, item)
        if name.lower() in VALUES:
            below = max(below, *(guard_of(text, item) for text in named), Guard.ANYTHING)
        found.append((place if name in telling else f"{place}/{_escaped(name)}", item, below))
    return found


def _items(place: str, value: list[Any], guard: Guard) -> list[tuple[str, Any, Guard]]:
    """An argument after an option of a secret is its value; so is the second of a pair whose first names one."""
    found: list[tuple[str, Any, Guard]] = []
    for index, (before, item) in enumerate(zip([None, *value], value, strict=False)):
        within = f"{place}/{index}"
        own = max(guard, asked(before, item))
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str):
            found += [(f"{within}/0", item[0], own), (f"{within}/1", item[1], max(own, guard_of(*item), asked(*item)))]
        else:
            found.append((within, item, own))
    return found


def _may_stand(value: Any, guard: Guard) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return True
    if guard is Guard.ANYTHING:
        return not (isinstance(value, str) and carries(value))
    if guard is Guard.PLAINLY and _SWITCH.fullmatch(str(value)):
        return True
    assigned = assignment(value) if isinstance(value, str) else None
    if assigned is None:
        return False
    return is_reference(assigned[1]) or (
        guard is Guard.PLAINLY and _may_stand(assigned[1], guard_below(guard, *assigned))
    )


def _is_said_to_be_plain(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("plain"), str | int | float)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
