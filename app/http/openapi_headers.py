"""The headers of requests and of answers, as the OpenAPI document tells them."""

from __future__ import annotations

from typing import Any

from app.http.caller import TENANT_ID

TENANT_PATTERN = f"^{TENANT_ID}$"
MUTATING = frozenset({"post", "put", "patch", "delete"})


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


HEADERS = {
    "X-Request-Id": _header("The request's id, taken from the request or made."),
    "ETag": _header("The revision, strong: send it back as `If-Match`."),
    "Link": _header('The next page, `rel="next"`; absent on the last.'),
    "Idempotency-Replayed": _header("`true` where this is the kept answer to an earlier request."),
    "Location": _header("Where the work is looked at that was accepted: a job, a delivery."),
    "WWW-Authenticate": _header("How to send the key."),
    "Retry-After": _header("Seconds to wait.", "integer"),
}
ERROR_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}


def named(kind: str, *names: str) -> dict[str, Any]:
    """References to components, by name."""
    return {name: {"$ref": f"#/components/{kind}/{name}"} for name in names}


def _request_header(name: str, description: str, example: str, pattern: str | None = None) -> dict[str, Any]:
    schema = {"type": "string", "examples": [example], **({"pattern": pattern} if pattern else {})}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


REQUEST_HEADERS = {
    header["name"]: header
    for header in (
        _request_header("X-Tenant-Id", "The tenant the operator's key acts for.", "acme", TENANT_PATTERN),
        _request_header(
            "Idempotency-Key",
            "The same key and request again replays the first answer; kept 24 hours.",
            "end-inv_7",
            "^[!-~]{1,255}$",
        ),
        _request_header(
            "Submission-Attempt",
            "`<submission_id>;<attempt_id>`, each percent-encoded: the write happens under it, or not.",
            "sub_9;att_2",
            "^[!-:<-~]+;[!-:<-~]+$",
        ),
        _request_header(
            "Lease",
            "`<name>;<fencing_token>`, the name percent-encoded: the write happens while that token holds the lease.",
            "indexer;7",
            "^[!-:<-~]+;[1-9][0-9]{0,15}$",
        ),
        _request_header("If-Match", "ETags: the change happens only to one of these revisions.", '"4"'),
        _request_header("If-None-Match", "ETags: 304 where one of them is still right.", '"1"'),
    )
}
# What a PUT documents that may be told to make only what is new; its call says so as `only_new`.
ONLY_NEW: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`*`: store only where nothing is there yet, else 412.",
    "schema": {"type": "string", "enum": ["*"]},
}


def request_headers(method: str, *, changing: bool, immutable: bool) -> list[dict[str, Any]]:
    """Those that a request may have, by reference: `changing` where it changes what its path names."""
    names = ["X-Tenant-Id"]
    if method in MUTATING:
        names += ["Idempotency-Key", "Submission-Attempt", "Lease"]
    if changing or method in ("put", "patch", "delete"):
        names.append("If-Match")
    if immutable:
        names.append("If-None-Match")
    return list(named("parameters", *names).values())


def success_headers(status: str, response: dict[str, Any], method: str) -> dict[str, Any]:
    """Those that an answer has, by reference; `method` is empty where the route is not one of the API."""
    names = ["X-Request-Id"]
    if method in MUTATING:
        names.append("Idempotency-Replayed")
    shown = str(response.get("content", {}).get("application/json", {}).get("schema", {}))
    if status == "202":
        names.append("Location")
    elif shown.endswith(("Page'}", "List'}")):
        names.append("Link")
    elif method and status != "204":
        names.append("ETag")
    return {**response.get("headers", {}), **named("headers", *names)}
