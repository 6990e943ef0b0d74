"""Answers as pictures: the same resource, drawn, where the caller asks for `image/svg+xml`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from app.db.database import Answer
from app.errors import AppError
from app.http import accepting
from app.http.accepting import VARY, prefers
from app.http.call import Call

SVG = "image/svg+xml"
# A picture opened by itself runs nothing and loads nothing, whatever the texts in it say.
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", **VARY}


class PictureTooLarge(AppError):
    """There is more than one picture shows legibly; `count` and `count_max` say of what, `detail` what to do."""

    status, code, title = 422, "picture_too_large", "There is too much for one picture"


def documented(title: str) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of an operation that also draws: for a route's `responses`."""
    example = f'<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>{title}</title>…</svg>'
    return {
        200: {
            "content": {SVG: {"schema": {"type": "string"}, "example": example}},
            "headers": accepting.documented("a picture"),
        }
    }


def wants_picture(call: Call) -> bool:
    """Whether the caller's `Accept` ranks SVG above JSON."""
    return prefers(call, SVG)


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
        return replace(answer, headers={**answer.headers, **VARY})
    picture = await call.ground.drawing.take(draw, answer.body or b"")
    return Response(picture.encode(), headers=HEADERS, media_type=SVG)
