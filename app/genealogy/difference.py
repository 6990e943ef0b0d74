"""The JSON Patch (RFC 6902) between two JSON texts, with every number as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from jsonpatch import JsonPatch

from app.genealogy.errors import DifferenceTooLarge

SIZE_MAX_BYTES = 8 * 1024 * 1024
# What takes a second or two to compare. A value counts 1,000, each of its characters once and twice more for each array
# around it and each array or object around that, and an array 20 times the square of its length.
WORK_MAX = 200_000_000
VALUE_WORK, PAIR_WORK = 1000, 20
# A longer array is one value: where it differs it is replaced whole.
ITEMS_MAX = 1000
_MARKS = re.compile(rb"[,\[{]")


class _Digits(str):
    """A number, as it is written."""

    __slots__ = ()


def difference(old: bytes, new: bytes) -> bytes:
    """The patch, as JSON, that makes the old value the new one: add, remove and replace, no moves.

    Numbers are compared and kept as they are written, so 1 and 1.0 differ. Raises `DifferenceTooLarge`.
    """
    if old == new:
        return b"[]"
    if sum(len(_MARKS.findall(text)) for text in (old, new)) * VALUE_WORK > WORK_MAX:
        raise too_large()
    work = _Work()
    operations = JsonPatch.from_diff(work.leaves(old), work.leaves(new), optimization=False).patch
    return b"[" + b",".join(_operation(operation) for operation in operations) + b"]"


def too_large() -> DifferenceTooLarge:
    """The refusal of DSLs that are too large, hold too many values, or nest too deep."""
    return DifferenceTooLarge(
        "The DSLs are too large, hold too many values, or nest too deep to be compared while you wait; read both.",
        size_max_bytes=SIZE_MAX_BYTES,
    )


class _Work:
    """Turns JSON into containers of texts, and adds up what comparing them may take.

    Each scalar becomes its own JSON text: to the library all are strings, and equal only where they are one text.
    """

    def __init__(self) -> None:
        self.done = 0

    def leaves(self, text: bytes) -> Any:
        """The value of a text. Raises `DifferenceTooLarge`."""
        return self._of(json.loads(text.decode(), parse_int=_Digits, parse_float=_Digits), 0, 0)

    def _of(self, value: Any, arrays: int, around: int) -> Any:
        if isinstance(value, dict):
            self._count(2 + sum(map(len, value)), arrays, around)
            return {name: self._of(item, arrays, around + 1) for name, item in value.items()}
        if isinstance(value, list) and len(value) <= ITEMS_MAX:
            self._count(2, arrays, around)
            self.done += PAIR_WORK * len(value) ** 2
            return [self._of(item, arrays + 1, around + 1) for item in value]
        text = _text(value, _scalar)
        self._count(len(text), arrays, around)
        return text

    def _count(self, size: int, arrays: int, around: int) -> None:
        self.done += VALUE_WORK + size * (1 + 2 * arrays * around)
        if self.done > WORK_MAX:
            raise too_large()


def _operation(operation: dict[str, Any]) -> bytes:
    value = f',"value":{_text(operation["value"], str)}' if "value" in operation else ""
    return f'{{"op":"{operation["op"]}","path":{json.dumps(operation["path"])}{value}}}'.encode()


def _scalar(value: Any) -> str:
    return str(value) if isinstance(value, _Digits) else json.dumps(value)


def _text(value: Any, scalar: Callable[[Any], str]) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(item, scalar)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(item, scalar) for item in value) + "]"
    return scalar(value)
