"""The custom headers of a webhook: which may be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.errors import InvalidInput

HEADERS_MAX = 32
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
# Printable ASCII, with no space at either end: anything else is read differently by different servers.
VALUE = re.compile(r"(?:[!-~](?:[ -~]{0,4094}[!-~])?)?")
# They frame the request, name its target, or are set by the service itself.
RESERVED = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    )
)
RESERVED_PREFIXES = ("webhook-", "proxy-")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `InvalidInput`, naming each wrong one, unless all of these may be sent along with every delivery."""
    if len(headers) > HEADERS_MAX:
        raise _refused([("/headers", f"has {len(headers)} headers; {HEADERS_MAX} is the most")])
    wrong = [(name, why) for name, value in headers.items() if (why := _fault(name, value))]
    seen: set[str] = set()
    for name in headers:
        if name.lower() in seen:
            wrong.append((name, "is there twice, in another case"))
        seen.add(name.lower())
    if wrong:
        raise _refused([(f"/headers/{name.replace('~', '~0').replace('/', '~1')}", why) for name, why in wrong])


def is_reserved(name: str) -> bool:
    """Whether a header of this name frames the request, or is set by the service."""
    return name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIXES)


def _fault(name: str, value: str) -> str | None:
    if not NAME.fullmatch(name):
        return "is no name of a header: up to 128 letters, digits and -_.!#$%&'*+^`|~"
    if is_reserved(name):
        return "is set by the service, or frames the request"
    if not VALUE.fullmatch(value):
        return "has a value that is not up to 4096 printable ASCII characters without spaces around them"
    return None


def _refused(wrong: list[tuple[str, str]]) -> InvalidInput:
    pointer, message = wrong[0]
    return InvalidInput(f"{pointer}: {message}.", errors=[{"pointer": at, "message": why} for at, why in wrong])
