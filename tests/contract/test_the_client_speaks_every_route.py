"""The Python client has a call for every route of the served document."""

from __future__ import annotations

import inspect
from typing import Any

from app.client.batch import Recorder
from app.client.call import Call
from app.client.endpoint import Resource, endpoint, listing
from app.client.surface import Surface
from app.http.service import Service

ID = "x"
# Spoken by methods that are no calls of their own.
BESIDE = {
    ("POST", "/v1/batch"),  # Cairn.batch
    ("GET", "/v1/conversations/events"),  # conversations.follow
    ("POST", "/v1/invocations/{invocation_id}/checkpoints/resume"),  # another name of …/resume
}


def given(build: Any, *, optional: bool) -> dict[str, Any]:
    """Something for each parameter that a call must have, or may have by its place."""
    found = {}
    for name, parameter in list(inspect.signature(build).parameters.items())[1:]:
        required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if required or (optional and parameter.kind is parameter.POSITIONAL_OR_KEYWORD):
            text = str(parameter.annotation)
            kinds = {"Sequence": [], "Mapping": {}, "int": 1, "bytes": b"x"}
            found[name] = next((value for kind, value in kinds.items() if text.startswith(kind)), ID)
    return found


def spoken() -> list[Call[Any]]:
    """Every call that the client can make."""
    calls = []
    for resource in vars(Surface(Recorder())).values():
        if isinstance(resource, Resource):
            for kind in type(resource).__mro__:
                for member in vars(kind).values():
                    if isinstance(member, endpoint | listing):
                        for optional in (False, True):
                            calls.append(member._build(resource, **given(member._build, optional=optional)))
    return calls


def is_at(template: str, path: str) -> bool:
    """Whether a path is one of a route's."""
    segments, parts = template.split("/"), path.split("/")
    return len(segments) == len(parts) and all(
        part in (ID, "1") if segment.startswith("{") else segment == part
        for segment, part in zip(segments, parts, strict=True)
    )


def test_every_route_has_a_call(service: Service) -> None:
    calls = spoken()
    missing = [
        f"{method.upper()} {path}"
        for path, operations in service.openapi()["paths"].items()
        for method in operations
        if path.startswith("/v1/") and method in {"get", "put", "post", "patch", "delete"}
        and (method.upper(), path) not in BESIDE
        and not any(call.method == method.upper() and is_at(path, call.path) for call in calls)
    ]  # fmt: skip
    assert missing == []
