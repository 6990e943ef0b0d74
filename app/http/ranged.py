"""Bytes as an answer: whole or one range of them, never a connection held while the client reads."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from app.errors import AppError
from app.http.call import Call
from app.http.immutable import IMMUTABLE

_RANGE = re.compile(r"bytes\s*=\s*(\d{0,64})\s*-\s*(\d{0,64})", re.IGNORECASE | re.ASCII).fullmatch
# RFC 9110: type and subtype are tokens; parameters are tokens or quoted strings. Other white space ends the header.
_MEDIA_TYPE = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+"
    r"([ \t]*;[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+=([!#$%&'*+.^_`|~0-9A-Za-z-]+|\"[ !#-\[\]-~]*\"))*"
).fullmatch
_UNSAFE_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# File systems keep no longer names; the whole name is in the resource.
NAME_BYTES_MAX = 255
# Opened in a browser all the same, it runs nothing, loads nothing and frames nothing.
INERT = {"Content-Security-Policy": "default-src 'none'; sandbox", "Cross-Origin-Resource-Policy": "same-origin"}


class RangeNotSatisfiable(AppError):
    """No byte of the range is there; `size_bytes` says how many bytes there are."""

    status, code, title = 416, "range_not_satisfiable", "The range lies beyond the bytes that are there"


@dataclass(frozen=True)
class Span:
    """The bytes from `start` up to but without `end`."""

    start: int
    end: int


def documented(headers: Mapping[str, str]) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of a route that answers bytes: for its `responses`, with its own headers."""
    named = {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}
    content = {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}, "headers": named}
    return {
        200: {"description": "The bytes.", **content},
        206: {"description": "The range that `Range` asked for; `Content-Range` says where it lies.", **content},
        304: {"description": "The caller has it already (`If-None-Match`)."},
    }


RANGE_HEADERS: list[dict[str, Any]] = [
    {
        "name": name,
        "in": "header",
        "required": False,
        "description": text,
        "schema": {"type": "string", "examples": [example]},
    }
    for name, text, example in (
        ("Range", "One range of bytes; several are answered with everything.", "bytes=0-1023"),
        ("If-Range", "An ETag: the range is answered only if it is still right, else everything.", '"2cf24dba"'),
    )
]


def asked(call: Call, tag: str, size_bytes: int) -> Span | None:
    """The range that a GET asks for; None for everything. Raises `RangeNotSatisfiable`.

    A range in another unit, several, and one under an `If-Range` that does not hold are answered with everything.
    """
    header, condition = call.headers.get("range"), call.headers.get("if-range")
    if header is None or call.method != "GET" or (condition is not None and condition.strip() != tag):
        return None
    found = _RANGE(header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first and last and int(last) < int(first):
        return None
    start = int(first) if first else max(0, size_bytes - int(last))
    end = min(size_bytes, int(last) + 1 if first and last else size_bytes)
    if start >= end:
        raise RangeNotSatisfiable(
            f"There are {size_bytes} bytes; none of them is in the range.",
            headers={"Content-Range": f"bytes */{size_bytes}"},
            size_bytes=size_bytes,
        )
    return Span(start, end)


def head_of(tag: str, media_type: str, file_name: str | None) -> dict[str, str]:
    """The headers of bytes that never change, kept from being shown or run by a browser."""
    return {
        "Content-Type": media_type if _MEDIA_TYPE(media_type) else "application/octet-stream",
        "Content-Disposition": disposition(file_name),
        "ETag": tag,
        "Accept-Ranges": "bytes",
        **IMMUTABLE,
        **INERT,
    }


def answered(
    call: Call, headers: dict[str, str], size_bytes: int, span: Span | None, body: bytes | AsyncIterator[bytes]
) -> Response:
    """The bytes of the span, which `body` gives, with their length said before the first of them.

    Where the iterator raises, the connection is cut: the client sees that its answer is not whole.
    """
    status, told = 200, dict(headers)
    if span is not None:
        status = 206
        told["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size_bytes}"
    told["Content-Length"] = str(size_bytes if span is None else span.end - span.start)
    if call.method == "HEAD":
        return Response(status_code=status, headers=told)
    if isinstance(body, bytes):
        return Response(body, status, told)
    return StreamingResponse(body, status, told)


def disposition(file_name: str | None) -> str:
    """`Content-Disposition: attachment` with a name, as RFC 6266 and 8187 write it: nothing in it ends the header.

    The name is the last segment of what was given, without what steers terminals and texts, cut to what disks keep.
    """
    name = _UNSAFE_IN_NAMES.sub("_", re.split(r"[/\\]", file_name or "")[-1]).strip()
    if name in ("", ".", ".."):
        return "attachment"
    name = _shortened(name)
    plain = re.sub(r'[^ -~]|["%]', "_", name)
    told = f'attachment; filename="{plain}"'
    return told if plain == name else f"{told}; filename*=UTF-8''{quote(name, safe='')}"


def _shortened(name: str) -> str:
    if len(name.encode()) <= NAME_BYTES_MAX:
        return name
    stem, dot, ending = name.rpartition(".")
    kept = dot + ending if stem and len(ending.encode()) < 16 else ""
    room = NAME_BYTES_MAX - len(kept.encode())
    return name.encode()[:room].decode(errors="ignore") + kept
