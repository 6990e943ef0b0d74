"""The digest of what a client sent, so that creating the same thing twice is told from a conflict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


def digest_of(fields: Mapping[str, Any]) -> bytes:
    """SHA-256 over the fields given: exact payloads as their bytes, everything else in one canonical text."""
    found = hashlib.sha256()
    for name in sorted(fields):
        kind, text = _canonical(fields[name])
        found.update(b"%s\x00%s\x00%d\x00" % (name.encode(), kind, len(text)))
        found.update(text)
    return found.digest()


def _canonical(value: Any) -> tuple[bytes, bytes]:
    if isinstance(value, bytes):
        return b"b", value
    if isinstance(value, str):
        return b"s", value.encode()
    if isinstance(value, datetime):
        return b"t", value.isoformat().encode()
    if isinstance(value, Decimal):
        return b"d", str(value.normalize()).encode()
    if isinstance(value, list | tuple):
        return b"l", b"".join(b"%s%d:%s" % (kind, len(text), text) for kind, text in map(_canonical, value))
    if isinstance(value, Mapping):
        return b"m", digest_of(value)
    return b"v", repr(value).encode()
