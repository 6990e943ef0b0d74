"""The application: FastAPI for documents and life cycle, and one thin path for every operation under `/v1`."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import structlog
from fastapi import FastAPI
from opentelemetry import propagate, trace
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from app.db.database import Answer
from app.errors import AppError, MalformedRequest, MethodNotAllowed, PersistenceError, Unavailable
from app.http.body import Disconnected, check_coding, receive_body
from app.http.call import MUTATING, Call, Ground
from app.http.caller import Authenticator, Caller
from app.http.endpoint import Endpoint
from app.http.limits import RateLimits
from app.http.openapi import Told, document
from app.http.problems import MEDIA_TYPE, problem
from app.http.router import Router

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}").fullmatch
DOCUMENT = "/openapi.json"
DOCUMENTS = frozenset({DOCUMENT, "/docs", "/redoc"})
# Whose body takes longer to arrive shows its key once more: it may be revoked by then.
TRUSTED_SECONDS = 5.0
STOPPED = "The service stopped before it had the answer; send this again, under the same Idempotency-Key."
# Where two of them disagree, whoever reads the first and whoever reads the last do different things.
_GIVEN_ONCE = frozenset(
    {b"authorization", b"x-tenant-id", b"idempotency-key", b"submission-attempt", b"lease", b"content-type"}
)
_OPEN = Caller(None, None, frozenset())
log = structlog.get_logger("cairn.http")


class Service(FastAPI):
    """Cairn as an ASGI application. What is named here without a value is set when it starts."""

    ground: Ground
    authenticator: Authenticator
    rate_limits: RateLimits

    def __init__(self, endpoints: Iterable[Endpoint], **options: Any) -> None:
        super().__init__(**options)
        self.endpoints = list(endpoints)
        self.router.routes.extend(self.endpoints)
        self.paths = Router(self.endpoints)
        self._told = Told(self)
        self.tracer: trace.Tracer | None = None

    def end_waits(self) -> None:
        """Let those go who wait for what others write: the server is about to wait for every open answer."""
        self.ground.live.end()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, built on first use."""
        return document(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; everything but HTTP goes to FastAPI."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if self.tracer is None:
            await self._answer(scope, receive, send)
            return
        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with self.tracer.start_as_current_span(
            scope["method"], context=propagate.extract(sent), kind=trace.SpanKind.SERVER
        ) as span:
            status, route = await self._answer(scope, receive, send)
            span.update_name(f"{scope['method']} {route}")
            span.set_attributes({"http.route": route, "http.response.status_code": status})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> tuple[int, str]:
        started = time.perf_counter()
        headers = Headers(scope=scope)
        given = headers.get("x-request-id")
        request_id = given if given and _REQUEST_ID(given) else f"req_{os.urandom(16).hex()}"
        structlog.contextvars.bind_contextvars(request_id=request_id)
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        outlet = _Outlet(send, request_id, scope["method"] == "HEAD")
        route, call = "unmatched", None
        if raw_path in DOCUMENTS and scope["method"] in ("GET", "HEAD"):
            await self._document(raw_path, scope, receive, outlet)
            return outlet.status, raw_path
        try:
            if raw_path in DOCUMENTS:
                raise MethodNotAllowed(
                    "This path answers GET, HEAD.", headers={"Allow": "GET, HEAD"}, allowed=["GET", "HEAD"]
                )
            endpoint, values = self.paths.match(scope["method"], raw_path)
            route = endpoint.path
            call = await self._call(endpoint, scope, headers, receive)
            rate = call.caller.read_rate if endpoint.reads else call.caller.write_rate
            if rate is not None:
                outlet.more = await self.rate_limits.take(call.tenant_id, rate)
            if call.method in MUTATING:
                check_coding(headers.get("content-encoding"))
            if call.method in MUTATING and not endpoint.streams and not endpoint.receives:
                await self._receive(call, headers.get("content-length"), receive)
            answer = await endpoint.serve(call, values)
            if isinstance(answer, Answer):
                await outlet.answer(answer)
            else:
                await answer(scope, receive, outlet.send)
        except Disconnected:
            return 499, route
        except asyncio.CancelledError:
            # The server cuts off what outlasts its grace; the client is told, and the task ends here.
            if not outlet.started:
                await outlet.problem(Unavailable(STOPPED, retry_after_seconds=5), raw_path)
        except Exception as error:
            await self._refuse(error, outlet, scope, raw_path, route)
        # To the head of the answer: a stream lasts as long as its reader wants, and a long-poll waits for others.
        seconds = (outlet.started_at or time.perf_counter()) - started - (call.waited_seconds if call else 0)
        self.ground.metrics.answered(scope["method"], route, outlet.status, seconds)
        settings = self.ground.settings
        if settings.access_log or seconds > settings.slow_request_seconds:
            log.info(
                "request", method=scope["method"], route=route, status=outlet.status,
                milliseconds=round(seconds * 1000, 1), request_id=request_id,
            )  # fmt: skip
        return outlet.status, route

    async def _document(self, raw_path: str, scope: Scope, receive: Receive, outlet: _Outlet) -> None:
        if raw_path == DOCUMENT:
            await outlet.answer(Answer(200, await self._told.content()))
        else:
            await super().__call__(scope, receive, outlet.send)

    async def _call(self, endpoint: Endpoint, scope: Scope, headers: Headers, receive: Receive) -> Call:
        _check_given_once(scope)
        call = Call(scope, receive)
        call.ground = self.ground
        call.caller = _OPEN
        if not endpoint.open_to_all:
            given = headers.get("authorization"), headers.get("x-tenant-id")
            call.caller = await self.authenticator.caller(*given)
            call.find_caller = partial(self.authenticator.caller, *given)
        return call

    async def _receive(self, call: Call, declared: str | None, receive: Receive) -> None:
        started = time.perf_counter()
        call.raw_body = await receive_body(receive, declared, self.ground.settings)
        if time.perf_counter() - started > TRUSTED_SECONDS:
            await call.check_caller()

    async def _refuse(self, error: Exception, outlet: _Outlet, scope: Scope, raw_path: str, route: str) -> None:
        """Answer with the problem that an error stands for.

        A method of its own: an error kept by a frame that it came through would hold the request's body in a circle,
        until the collector's next full round.
        """
        refusal = error if isinstance(error, AppError) else PersistenceError("The service failed; nothing was stored.")
        if refusal.status >= 500:
            cause = error.__cause__ or error
            log.error(
                "failed", code=refusal.code, method=scope["method"], route=route, request_id=outlet.request_id,
                error=f"{type(cause).__name__}: {cause}"[:500], exc_info=error if refusal.status == 500 else None,
            )  # fmt: skip
        if outlet.started:
            raise error
        await outlet.problem(refusal, raw_path)


def _check_given_once(scope: Scope) -> None:
    names = [name for name, _ in scope["headers"] if name in _GIVEN_ONCE]
    if len(names) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedRequest(f"The header {twice.decode()} must be given once.")


class _Outlet:
    """Sends an answer with the headers that are always present."""

    def __init__(self, send: Send, request_id: str, head: bool) -> None:
        self._send, self.request_id, self._head = send, request_id, head
        self.started_at: float | None = None
        self.status = 500
        self.more: dict[str, str] = {}

    @property
    def started(self) -> bool:
        """Whether the head of the answer was sent."""
        return self.started_at is not None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started_at, self.status = time.perf_counter(), message["status"]
            message["headers"] = [*message.get("headers", []), *self._always()]
        await self._send(message)

    def _always(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            *((name.lower().encode(), value.encode()) for name, value in self.more.items()),
        ]

    async def answer(self, answer: Answer) -> None:
        headers = [(b"content-type", b"application/json")]
        if answer.etag is not None:
            headers.append((b"etag", b'"%d"' % answer.etag))
        await self._whole(answer.status, answer.body, headers, answer.headers)

    async def problem(self, refusal: AppError, instance: str) -> None:
        body = problem(refusal, instance, self.request_id)
        await self._whole(refusal.status, body, [(b"content-type", MEDIA_TYPE.encode())], refusal.headers)

    async def _whole(
        self, status: int, body: bytes | None, headers: list[tuple[bytes, bytes]], more: dict[str, str]
    ) -> None:
        if more:
            headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in more.items()]
        if body is None:
            headers = [header for header in headers if header[0] != b"content-type"]
        if status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body or b"")))
        self.started_at, self.status = time.perf_counter(), status
        await self._send({"type": "http.response.start", "status": status, "headers": headers + self._always()})
        await self._send({"type": "http.response.body", "body": b"" if self._head or body is None else body})
