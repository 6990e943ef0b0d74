"""Offsets: how the place of a batch is written, in text and in SQL."""

from __future__ import annotations

import re

from app.conversations.errors import BadOffset

# Before the first batch; and after the last one, whichever that is at the moment.
START, NOW = "-1", "now"
_OFFSET = re.compile(r"[0-9]{1,64}_([0-9]{1,64})").fullmatch
# Beyond every batch that can be, and the greatest that an offset's digits write: what is greater is read as this.
SEQ_MAX = 10**16 - 1


def offset_of(seq: int) -> str:
    """The offset of a batch by its number from 0; -1 stands before the first."""
    return START if seq < 0 else f"{0:016}_{seq:016}"


def seq_of(offset: str) -> int:
    """The number of a batch by its offset. Raises `BadOffset`."""
    if offset == START:
        return -1
    match = _OFFSET(offset)
    if match is None:
        raise BadOffset("An offset is -1, or two numbers joined by an underscore, as a read answers it.")
    return min(int(match[1]), SEQ_MAX)


def offset_sql(seq: str) -> str:
    """The SQL that writes the offset of a number."""
    return f"CASE WHEN {seq} < 0 THEN '-1' ELSE '0000000000000000_' || lpad(CAST({seq} AS text), 16, '0') END"
