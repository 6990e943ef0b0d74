"""What stands for a context whose summary nobody gave: the same bytes of the same type have the same excerpt."""

from __future__ import annotations

import codecs
import re

import msgspec

# So many bytes of text are their own excerpt, and no excerpt of text is longer.
EXCERPT_BYTES_MAX = 200
# How much of the data is looked at; JSON of more bytes is not read for its structure, it is text.
LOOKED_AT_BYTES = 256 * 1024
# How many members of an object are named.
NAMED_MAX = 3
_MORE = "…"
_JSON = re.compile(r"[^;]*[/+]json\s*(;|$)", re.IGNORECASE).match
# No column takes the first, no terminal should see the others, and a lone surrogate is no text.
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def excerpt_of(start: bytes, size_bytes: int, content_type: str) -> str:
    """The excerpt of data, of which `start` is the first `LOOKED_AT_BYTES`, or all where there are fewer.

    Short text is itself. Of JSON it says what kind of value it is and what is in it, of longer text it is how that
    begins, never with half a character. Bytes that are no UTF-8, or that hold a NUL, are only counted.
    """
    text = _text(start, whole=len(start) == size_bytes)
    if text is None:
        return f"binary ({size_bytes} bytes)"
    if EXCERPT_BYTES_MAX < size_bytes <= LOOKED_AT_BYTES and _JSON(content_type):
        structure = _structure(start, size_bytes)
        if structure is not None:
            return structure
    return _shortened(_UNSAFE.sub("\ufffd", text[:EXCERPT_BYTES_MAX]), whole=size_bytes <= EXCERPT_BYTES_MAX)


def _text(start: bytes, *, whole: bool) -> str | None:
    if b"\x00" in start:
        return None
    try:
        # Where more follows, the start may end within a character.
        return codecs.getincrementaldecoder("utf-8")().decode(start, final=whole)
    except UnicodeDecodeError:
        return None


def _structure(data: bytes, size_bytes: int) -> str | None:
    """What kind of JSON it is and what is in it; None for what is no JSON, and for a value without parts."""
    try:
        value = msgspec.json.decode(data, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list):
        return f"array of {len(value)} ({size_bytes} bytes)"
    names = ", ".join(_shortened(_UNSAFE.sub("\ufffd", name), 40) for name in list(value)[:NAMED_MAX])
    more = f", {_MORE}" if len(value) > NAMED_MAX else ""
    return f"object of {len(value)}: {names}{more} ({size_bytes} bytes)"


def _shortened(text: str, bytes_max: int = EXCERPT_BYTES_MAX, *, whole: bool = True) -> str:
    """The text in at most so many bytes; a mark at its end where something is left out."""
    encoded = text.encode()
    if whole and len(encoded) <= bytes_max:
        return text
    return encoded[: bytes_max - len(_MORE.encode())].decode(errors="ignore") + _MORE
