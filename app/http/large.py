"""Finds where a large JSON value ends, and whether it is JSON, without building it: memory stays that of the text.

The standard library's scanner builds what it skips, which costs a text of many small values thirty times its size.
"""

from __future__ import annotations

import re
import sys

import msgspec

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).match
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]++").match
# Up to the next bracket, over strings; in strides, so that a signal is seen between them.
_BRACKETS = re.compile(
    rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+){0,1000}+(?:([\[{])|([\]}]))?', re.DOTALL
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_validate = msgspec.json.Decoder(msgspec.Raw).decode


class NestsDeeper(Exception):
    """A value nests deeper than it may."""


def skip(text: bytes, start: int, levels: int, bytes_max: int = sys.maxsize) -> int:
    """Where the JSON value at `start` of UTF-8 text ends.

    Raises `ValueError` where no JSON value of at most so many bytes is, `NestsDeeper` where it has more levels of
    arrays and objects.
    """
    opening = text[start : start + 1]
    if opening in (b"[", b"{"):
        end = _closing(text, start, levels, min(len(text), start + bytes_max))
    else:
        found = (_STRING if opening == b'"' else _SCALAR)(text, start)
        if found is None:
            raise ValueError("no value")
        end = found.end()
    _check(memoryview(text)[start:end])
    return end


def _closing(text: bytes, start: int, levels: int, end: int) -> int:
    depth = 0
    for found in _BRACKETS.finditer(text, start, end):
        kind = found.lastindex
        if kind == 1:
            depth += 1
            if depth > levels:
                raise NestsDeeper
        elif kind == 2:
            depth -= 1
            if not depth:
                return found.end()
        elif found.end() == found.start():
            break
    raise ValueError("no end")


def _check(value: memoryview) -> None:
    """Raise `ValueError` unless the text is one JSON value. Lone surrogates, which JSON may escape, are let through."""
    try:
        _validate(value)
    except (msgspec.DecodeError, RecursionError) as error:
        if _SURROGATE.search(value) is None:
            raise ValueError("not JSON") from error
        # Another character of the same length in each one's place: what is left wrong is not a surrogate.
        patched = bytearray(value)
        for found in _SURROGATE.finditer(value):
            patched[found.start() + 2 : found.end()] = b"00"
        try:
            _validate(patched)
        except (msgspec.DecodeError, RecursionError) as still:
            raise ValueError("not JSON") from still
