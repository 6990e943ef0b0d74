"""What never changes: kept by caches for good, and not sent again to those who have it."""

from __future__ import annotations

from app.http.call import Call

IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}


def is_held(call: Call, tag: str) -> bool:
    """Whether the caller has the representation with this ETag already (`If-None-Match`, which compares weakly)."""
    header = call.headers.get("if-none-match")
    if header is None:
        return False
    return header.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in header.split(","))
