"""Answers as pictures: the same resource, drawn, where the caller asks for `image/svg+xml`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from app.db.database import Answer
from app.errors import AppError
from app.http.call import Call

SVG = "image/svg+xml"
# A picture opened by itself runs nothing and loads nothing, whatever the texts in it say.
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Vary": "Accept"}


class PictureTooLarge(AppError):
    """There is more than one picture shows legibly; `count` and `count_max` say of what, `detail` what to do."""

    status, code, title = 422, "picture_too_large", "There is too much for one picture"


def documented(title: str) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of an operation that also draws: for a route's `responses`."""
    example = f'<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>{title}</title>…</svg>'
    vary = {"description": "`Accept`: it decides between JSON and a picture.", "schema": {"type": "string"}}
    return {
        200: {
            "content": {SVG: {"schema": {"type": "string"}, "example": example}},
            "headers": {"Vary": vary},
        }
    }


def wants_picture(call: Call) -> bool:
    """Whether the caller's `Accept` ranks SVG above JSON: by quality, then by which is named more exactly.

    JSON is the answer where they are even, where neither is accepted, and inside a batch.
    """
    if call.batched:
        return False
    ranges = [_media_range(part) for part in ",".join(call.headers.getlist("accept")).split(",") if part.strip()]
    picture = _quality(ranges, "image", "svg+xml")
    return picture[0] > 0 and picture > _quality(ranges, "application", "json")


def require_legible(count: int, count_max: int, noun: str, fewer: str) -> None:
    """Raise `PictureTooLarge` where there is more than one picture shows.

    `noun` is what they are, in the plural; `fewer` says how to ask for fewer of them.
    """
    if count > count_max:
        raise PictureTooLarge(
            f"There are {count:,} {noun}; a picture shows at most {count_max:,}. {fewer}, or ask for application/json.",
            count=count,
            count_max=count_max,
        )


async def shown(call: Call, answer: Answer, draw: Callable[[bytes], str]) -> Answer | Response:
    """The answer as it is, or drawn from its JSON in a thread. Raises what `draw` raises, and `Unavailable`."""
    if not wants_picture(call):
        return replace(answer, headers={**answer.headers, "Vary": "Accept"})
    picture = await call.ground.drawing.take(draw, answer.body or b"")
    return Response(picture.encode(), headers=HEADERS, media_type=SVG)


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
