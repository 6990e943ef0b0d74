"""Every refusal as application/problem+json (RFC 9457), and what validation found, by JSON Pointer."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from app.errors import AppError, InvalidInput

MEDIA_TYPE = "application/problem+json"
ERRORS_MAX = 100
# A name that nobody knows may be as long as a body; nobody reads more of it than this.
NAME_MAX = 200
# The patterns by which texts are held to that.
WITHOUT_NUL = frozenset({r"^[^\x00]*$", r"^[^\x00]+$"})
# What pydantic puts behind a member whose name is wrong, rather than its value: a pointer ends at the member.
_OF_KEY = "[key]"


def problem(error: AppError, instance: str, request_id: str) -> bytes:
    """The body of a refusal: type, title, status, detail, instance, code, request id, and the facts."""
    members: dict[str, Any] = {
        "type": f"/problems/{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": instance,
        "code": error.code,
        "request_id": request_id,
        **error.facts,
    }
    return json.dumps(members, default=str).encode("ascii")


def problem_within(error: AppError, pointer: str) -> bytes:
    """A refusal of a part of a call that is answered as a whole; the part is at `pointer` of the body."""
    facts = dict(error.facts)
    if "errors" in facts:
        facts["errors"] = [{**found, "pointer": pointer + found["pointer"]} for found in facts["errors"]]
    members: dict[str, Any] = {
        "status": error.status,
        "type": f"/problems/{error.code}",
        "title": error.title,
        "detail": error.detail,
        "code": error.code,
        **facts,
    }
    return json.dumps(members, default=str).encode("ascii")


def rejected(error: ValidationError, *, query: bool = False) -> InvalidInput:
    """What a model refused, as one refusal that names every place; a query parameter is named, not pointed to."""
    found = [
        {"pointer": _pointer(item["loc"], query), "message": _message(item)}
        for item in error.errors(include_url=False, include_input=False)[:ERRORS_MAX]
    ]
    first = found[0]
    return InvalidInput(f"{first['pointer'] or 'The body'}: {first['message']}.", errors=found)


def _pointer(location: tuple[int | str, ...], query: bool) -> str:
    if query:
        return str(location[0]) if location else ""
    if location[1:] and location[-1] == _OF_KEY:
        location = location[:-1]
    return "".join("/" + _shown(str(part)).replace("~", "~0").replace("/", "~1") for part in location)


def _shown(name: str) -> str:
    return name if len(name) <= NAME_MAX else name[:NAME_MAX] + "…"


def _message(item: Any) -> str:
    context = item.get("ctx", {})
    kind = item["type"]
    fixed = {
        "missing": "is required",
        "extra_forbidden": "is not a member that this call knows",
        "int_type": "must be an integer from 0 to 9007199254740991",
        "int_from_float": "must be an integer",
        "int_parsing": "must be an integer",
        "int_parsing_size": "must be an integer within ±9007199254740991",
        "string_type": "must be a string",
        "string_unicode": "must be valid Unicode, without lone surrogates",
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "list_type": "must be an array",
        "tuple_type": "must be an array",
        "dict_type": "must be an object",
        "model_type": "must be an object",
        "is_instance_of": "must be a JSON value",
    }
    if kind in fixed:
        return fixed[kind]
    if kind == "value_error":
        return str(context.get("error", item["msg"]))
    if kind == "string_pattern_mismatch":
        return "must not hold U+0000" if context["pattern"] in WITHOUT_NUL else f"must match {context['pattern']}"
    if kind in ("string_too_short", "too_short") and context["min_length"] == 1:
        return "must not be empty"
    bounds = {
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le}",
        "greater_than": "must be more than {gt}",
        "string_too_short": "must have at least {min_length} characters",
        "string_too_long": "must have at most {max_length} characters",
        "too_short": "must have at least {min_length} items",
        "too_long": "must have at most {max_length} items",
        "literal_error": "must be one of {expected}",
    }
    return bounds[kind].format(**context) if kind in bounds else str(item["msg"])
