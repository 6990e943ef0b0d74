"""A page for each problem code: what `type` in an error answer points to. Made from the errors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from starlette.responses import HTMLResponse, Response

from app.errors import AppError, NotFound
from app.http.call import Call
from app.http.endpoint import Routes

routes = Routes("operations")

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body{{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem;color:#222;background:#fff}}
code{{background:#f2f2f2;padding:.1em .3em;border-radius:3px}}td{{padding:.2rem 1rem .2rem 0;vertical-align:top}}
@media(prefers-color-scheme:dark){{body{{color:#ddd;background:#181818}}code{{background:#2a2a2a}}a{{color:#8bf}}}}
</style></head><body>
"""
_INTERNAL = frozenset({"idempotency_key_kept", "ids_taken"})


def kinds() -> dict[str, type[AppError]]:
    """Every kind of error that a client can see, by code."""
    found = {kind.code: kind for kind in _below(AppError) if kind.code not in _INTERNAL}
    return dict(sorted(found.items()))


def _below(kind: type[AppError]) -> Iterator[type[AppError]]:
    for below in kind.__subclasses__():
        yield from _below(below)
        yield below


@routes.get("/problems", scope="", open_to_all=True, response_class=HTMLResponse)
async def problems(call: Call) -> Response:  # noqa: ARG001 - as every route
    """Every problem code, as a page for people."""
    rows = "".join(
        f'<tr><td>{kind.status}</td><td><a href="/problems/{code}"><code>{code}</code></a></td>'
        f"<td>{escape(kind.title)}</td></tr>\n"
        for code, kind in kinds().items()
    )
    return HTMLResponse(_HEAD.format(title="Problems") + f"<h1>Problems</h1>\n<table>{rows}</table></body></html>\n")


@routes.get("/problems/{code}", scope="", open_to_all=True, response_class=HTMLResponse)
async def problem(call: Call, code: str) -> Response:  # noqa: ARG001 - as every route
    """What a problem code means, as a page for people. Error answers point here with `type`."""
    kind = kinds().get(code)
    if kind is None:
        raise NotFound("There is no such problem code; GET /problems lists them all.")
    meaning = " ".join((kind.__doc__ or kind.title).split())
    again = (
        "Sending the same request again may succeed; wait for <code>Retry-After</code> seconds where it is given."
        if kind.status in (408, 429, 503) or code == "idempotency_in_progress"
        else "Sending the same request again gives the same answer until something has changed."
    )
    return HTMLResponse(
        _HEAD.format(title=escape(kind.title))
        + f"<h1>{escape(kind.title)}</h1>\n<p><code>{code}</code>, status {kind.status}</p>\n"
        + f"<p>{escape(meaning)}</p>\n<p>The member <code>detail</code> of the answer says what happened in this case;"
        + f' further members are facts to act on.</p>\n<p>{again}</p>\n<p><a href="/problems">All problems</a></p>\n'
        + "</body></html>\n"
    )
