"""Ids that the service makes where the client chose none."""

from __future__ import annotations

import os
import time


def new_id(prefix: str) -> str:
    """`<prefix>_` and a UUIDv7 in hex: ids made later sort later, to the millisecond."""
    value = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return f"{prefix}_{value:032x}"
