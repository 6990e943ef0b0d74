"""The OpenAPI document: every error declared at every operation, examples, and the key."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from app import errors as kinds
from app.errors import AppError
from app.http.openapi_headers import (
    ERROR_HEADERS,
    HEADERS,
    REQUEST_HEADERS,
    TENANT_PATTERN,
    named,
    request_headers,
    success_headers,
)
from app.http.samples import tell_examples

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "examples": ["/problems/not_found"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "message"],
                "properties": {"pointer": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "additionalProperties": True,
}


READ_ERRORS: tuple[type[AppError], ...] = (
    kinds.MalformedRequest,
    kinds.Unauthenticated,
    kinds.Forbidden,
    kinds.NotFound,
    kinds.InvalidInput,
    kinds.RateLimited,
    kinds.PersistenceError,
    kinds.Unavailable,
)
WRITE_ERRORS: tuple[type[AppError], ...] = (
    *READ_ERRORS,
    kinds.RequestTimeout,
    kinds.IdempotencyInProgress,
    kinds.StaleAttempt,
    kinds.StaleLease,
    kinds.PreconditionFailed,
    kinds.PayloadTooLarge,
    kinds.UnsupportedMediaType,
    kinds.IdempotencyKeyReused,
)
OPEN_ERRORS: tuple[type[AppError], ...] = (
    kinds.MalformedRequest,
    kinds.NotFound,
    kinds.InvalidInput,
    kinds.PersistenceError,
    kinds.Unavailable,
)


def responses_of(
    errors: tuple[type[AppError], ...], *, writes: bool, open_to_all: bool = False
) -> dict[int | str, dict[str, Any]]:
    """The error answers of an operation, one entry for each status, one example for each code."""
    by_status: dict[int | str, dict[str, Any]] = {}
    usual = OPEN_ERRORS if open_to_all else WRITE_ERRORS if writes else READ_ERRORS
    for kind in dict.fromkeys((*usual, *errors)):
        entry = by_status.setdefault(
            kind.status,
            {
                "description": kind.title,
                "headers": named("headers", "X-Request-Id", *ERROR_HEADERS.get(kind.status, ())),
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
                },
            },
        )
        entry["content"]["application/problem+json"]["examples"] |= named("examples", kind.code)
    return by_status


def _example(kind: type[AppError]) -> dict[str, Any]:
    return {
        "type": f"/problems/{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": (kind.__doc__ or kind.title).partition("\n")[0],
        "instance": "/v1/…",
        "code": kind.code,
        "request_id": "req_01",
    }


def document(app: FastAPI) -> dict[str, Any]:
    """The served document; built on first use, since it weighs more than the routes."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        components = schema.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = PROBLEM
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        routes: dict[tuple[str, str], Any] = {}
        for route in app.routes:
            if isinstance(route, APIRoute):
                routes.update({(route.path, method.lower()): route for method in route.methods or ()})
        told = {kind.code: kind for route in routes.values() for kind in (*WRITE_ERRORS, *OPEN_ERRORS, *route.errors)}
        components["examples"] = {code: {"value": _example(told[code])} for code in sorted(told)}
        components["headers"] = HEADERS
        components["parameters"] = REQUEST_HEADERS
        for path, item in schema["paths"].items():
            for method, operation in item.items():
                _finish(operation, path, method, routes[path, method])
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        tell_examples(schema)
        app.openapi_schema = schema
    return app.openapi_schema


class Told:
    """The document as it is sent. Made on first use, in a thread: that takes a second or more, and others go on."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._content = app, b""
        self._making = asyncio.Lock()

    async def content(self) -> bytes:
        """JSON, the same bytes each time."""
        async with self._making:
            if not self._content:
                self._content = await asyncio.to_thread(self._made)
        return self._content

    def _made(self) -> bytes:
        return json.dumps(self._app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()


TEXT_PATTERN = "^[^\\x00]*$"


RAW_BODY = {
    "description": "The bytes as they are; up to `limits.upload_bytes` of `GET /v1/capabilities`.",
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
# What these change has no ETag to be named.
WITHOUT_ETAG = frozenset(
    {
        *("/v1/api-keys/{key_id}/rotate", "/v1/jobs/{job_id}/cancel"),
        *(f"/v1/offboardings/{{offboarding_id}}/{action}" for action in ("confirm", "cancel")),
        *(f"/v1/leases/{{name}}/{change}" for change in ("acquire", "renew", "release")),
        "/v1/webhooks/{webhook_id}/test",
        "/v1/deliveries/{delivery_id}/redeliver",
        "/v1/dead-letters/{letter_id}/replay",
        "/v1/backups/{backup_id}/verify",
        "/v1/invocations/{invocation_id}/contexts/clear",
    }
)


def _finish(operation: dict[str, Any], path: str, method: str, route: Any) -> None:
    """What FastAPI does not know: headers, replays, and who needs no key."""
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    if route.open_to_all:
        operation["security"] = []
    parameters = operation.pop("parameters", [])
    for parameter in parameters:
        _finish_parameter(parameter)
    if path.startswith("/v1"):
        # A POST that neither creates nor reads changes what its path names.
        creates_or_reads = "201" in responses or route.reads
        changing = method == "post" and "{" in path and not creates_or_reads and path not in WITHOUT_ETAG
        parameters += request_headers(method, changing=changing, immutable="304" in responses)
    if parameters:
        operation["parameters"] = parameters
    if "201" in responses and path != "/v1/api-keys":
        replay = {"description": "It was there already: the resource as it now is."}
        content = {media: dict(told) for media, told in responses["201"]["content"].items()}
        responses.setdefault("200", {**responses["201"], **replay, "content": content})
    if route.body_model is not None:
        operation["requestBody"]["required"] = not route.body_optional
    if route.receives:
        operation["requestBody"] = RAW_BODY
    if path == "/v1/batch":
        # The first failure of an operation inside is the answer, whatever its status.
        responses["default"] = {**responses["422"], "description": "What the operation at `index` answered."}
    for status, response in responses.items():
        if status[0] in "23":
            response["headers"] = success_headers(status, response, method if path.startswith("/v1") else "")


def _finish_parameter(parameter: dict[str, Any]) -> None:
    schema = parameter["schema"]
    if parameter["in"] == "path":
        pattern = TENANT_PATTERN if parameter["name"] == "tenant_id" else TEXT_PATTERN
        schema.update(pattern=pattern, minLength=1, maxLength=255)
        parameter["description"] = "At most 255 bytes of UTF-8, percent-encoded; not a word that is a route there."
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        # A parameter is left out, never null.
        del schema["anyOf"]
        schema.update(kinds[0])
    texts = schema.get("items", schema)
    if texts.get("type") == "string" and not texts.keys() & {"pattern", "enum", "const", "format"}:
        texts["pattern"] = TEXT_PATTERN
    media = schema.pop("contentMediaType", None)
    if media is not None:
        del parameter["schema"]
        parameter["content"] = {media: {"schema": {"type": "object"}}}
