"""Which form of an answer the caller's `Accept` asks for, where a resource has another one beside JSON."""

from __future__ import annotations

from typing import Any

from app.http.call import Call

VARY = {"Vary": "Accept"}


def documented(form: str) -> dict[str, Any]:
    """What the OpenAPI document says of the header `Vary` of such an answer; `form` is the other one, in words."""
    return {"Vary": {"description": f"`Accept`: it decides between JSON and {form}.", "schema": {"type": "string"}}}


def prefers(call: Call, media_type: str) -> bool:
    """Whether the caller's `Accept` ranks a media type above JSON: by quality, then by which is named more exactly.

    JSON is the answer where they are even, where neither is accepted, and inside a batch.
    """
    if call.batched:
        return False
    ranges = [_media_range(part) for part in ",".join(call.headers.getlist("accept")).split(",") if part.strip()]
    kind, _, subtype = media_type.partition("/")
    wanted = _quality(ranges, kind, subtype)
    return wanted[0] > 0 and wanted > _quality(ranges, "application", "json")


def _media_range(text: str) -> tuple[str, str, float]:
    """A media range's type, subtype and quality; one that is not well-formed has quality 0."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    kind, _, subtype = name.partition("/")
    quality = 1.0
    for parameter in parameters:
        given, _, value = parameter.partition("=")
        if given.strip() == "q":
            try:
                quality = min(1.0, max(0.0, float(value)))
            except ValueError:
                quality = 0.0
    return kind, subtype, quality


def _quality(ranges: list[tuple[str, str, float]], kind: str, subtype: str) -> tuple[float, int]:
    """The quality that the most exact of the matching ranges gives, and how exact it is: 2, 1 or 0."""
    matching = [
        ((kind, subtype) == given[:2], kind == given[0], given[2])
        for given in ranges
        if given[:2] in ((kind, subtype), (kind, "*"), ("*", "*"))
    ]
    exact, same_kind, quality = max(matching, default=(False, False, 0.0))
    return quality, int(exact) + int(same_kind)
