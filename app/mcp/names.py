"""Items that are known by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import invalid


def names_of(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of items. Raises `InvalidInput` where one comes twice."""
    names: dict[str, None] = {}
    for place, item in enumerate(items):
        if item["name"] in names:
            raise invalid(f"/items/{place}/name", "is the name of an item before it")
        names[item["name"]] = None
    return list(names)
