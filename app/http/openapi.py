"""The OpenAPI document: every error declared at every operation, examples, and the key."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app import errors as kinds
from app.errors import AppError

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
HEADERS = {
    "X-Request-Id": {"description": "The request's id, taken from the request or made.", "schema": {"type": "string"}}
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
    kinds.PreconditionFailed,
    kinds.PayloadTooLarge,
    kinds.UnsupportedMediaType,
    kinds.IdempotencyKeyReused,
)


def responses_of(errors: tuple[type[AppError], ...], *, writes: bool) -> dict[int | str, dict[str, Any]]:
    """The error answers of an operation, one entry for each status, one example for each code."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for kind in dict.fromkeys((*(WRITE_ERRORS if writes else READ_ERRORS), *errors)):
        entry = by_status.setdefault(
            kind.status,
            {
                "description": kind.title,
                "headers": HEADERS,
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
                },
            },
        )
        entry["content"]["application/problem+json"]["examples"][kind.code] = {"value": _example(kind)}
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
        _finish(schema)
        app.openapi_schema = schema
    return app.openapi_schema


MUTATING_HEADERS = [
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The same key and request again replays the first answer; kept 24 hours.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    }
]
TENANT_HEADER = {
    "name": "X-Tenant-Id",
    "in": "header",
    "required": False,
    "description": "The tenant the operator's key acts for.",
    "schema": {"type": "string", "pattern": "^[a-z0-9_-]{1,64}$"},
}


def _finish(schema: dict[str, Any]) -> None:
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            operation["responses"].pop(
                "422" if "HTTPValidationError" in str(operation["responses"].get("422")) else "", None
            )
            if "201" in operation["responses"] and path != "/v1/api-keys":
                replay = {"description": "It was there already: the resource as it now is."}
                operation["responses"].setdefault("200", {**operation["responses"]["201"], **replay})
            if path.startswith("/v1"):
                operation.setdefault("parameters", []).append(TENANT_HEADER)
                if method in ("post", "put", "patch", "delete"):
                    operation["parameters"] += MUTATING_HEADERS
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
