"""What is kept of an endpoint's answer: a bounded beginning of its body as text, and when to ask it again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

# Gives at most so many bytes, at least one, of what a piece says.
Unpacker = Callable[[bytes, int], bytes]

OPAQUE = "(The body is in a content encoding that is not read.)"
# PostgreSQL stores no NUL; the others would only confuse who reads them.
UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def unpacker(encoding: str) -> Unpacker | None:
    """What undoes a content encoding piece by piece, never making more than asked; None for one that it cannot."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece, most: piece[:most]
        case "gzip" | "x-gzip" | "deflate":
            return _Inflating().some
    return None


class _Inflating:
    """Inflates gzip, zlib, or bare deflate. What is damaged gives no more bytes."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self._is_begun = False

    def some(self, piece: bytes, most: int) -> bytes:
        """At most so many bytes of what this piece adds."""
        try:
            made = self._inner.decompress(piece, most)
        except zlib.error:
            if self._is_begun:
                return b""
            # Some servers say deflate and send it without the zlib header.
            self._is_begun = True
            self._inner = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
            return self.some(piece, most)
        self._is_begun = True
        return made


def snippet(body: bytes | bytearray, is_opaque: bool) -> str:
    """The body as text that PostgreSQL stores and a terminal shows: what is neither becomes U+FFFD."""
    if is_opaque:
        return OPAQUE
    return UNREADABLE.sub("\ufffd", body.decode("utf-8", "replace"))


def retry_after(value: str, now: float) -> float | None:
    """The seconds that a `Retry-After` asks to wait, given in seconds or as a date; None for anything else."""
    if re.fullmatch(r"[0-9]{1,12}", value.strip()):
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        # A date that names no zone is in UTC, as every date of HTTP.
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return max(at.timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, OSError):
        return None
