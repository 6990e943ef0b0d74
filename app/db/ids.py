"""Ids that the service makes where the client chose none."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidInput


def new_id(prefix: str) -> str:
    """`<prefix>_` and a UUIDv7 in hex: ids made later sort later, to the millisecond."""
    value = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return f"{prefix}_{value:032x}"


def ids_of(items: Sequence[Mapping[str, Any]], prefix: str) -> list[str]:
    """The id of each item, made where the client chose none. Raises `InvalidInput` where one comes twice."""
    ids = [item.get("id") or new_id(prefix) for item in items]
    if len(set(ids)) == len(ids):
        return ids
    again = [place for place, wanted in enumerate(ids) if wanted in ids[:place]]
    raise InvalidInput(
        "An id comes twice in one call.",
        errors=[{"pointer": f"/items/{place}/id", "message": "is the id of an item before it"} for place in again],
    )
