"""A route: declared to FastAPI, which documents it; carried out by a thin path that leaves payloads alone."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import quote

import msgspec
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.responses import Response

from app.db.database import Answer, Once, Reader
from app.db.fences import Fences
from app.errors import AppError, BadCursor, UnsupportedMediaType, invalid
from app.http import idempotency
from app.http.call import MUTATING, Call
from app.http.cutting import read_body, read_payload
from app.http.fields import Body, Query
from app.http.including import Including
from app.http.openapi import responses_of
from app.http.problems import rejected
from app.http.query import read_query, refuse_query
from app.http.received import Received, receiving
from app.http.signature import bodies_of, documented_as
from app.http.verbatim import Verbatim

THREAD_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024
# The answer is work that goes on beside the request: a job, a delivery.
ACCEPTED = 202
Handler = Callable[..., Awaitable[Answer | Response]]
Replayed = Callable[[Call, Any, Answer], Awaitable[Answer]]
"""Gives the replay of a call: from the call, its body, and the answer that was kept."""


class _Named(msgspec.Struct):
    id: str
    # The job that makes it, where the resource is not the job itself.
    job_id: str | None = None


class Endpoint(APIRoute):
    """One operation: its scope, its errors, and how it is carried out."""

    def __init__(
        self,
        path: str,
        endpoint: Handler,
        *,
        scope: str,
        transactional: bool = False,
        open_to_all: bool = False,
        batchable: bool = True,
        streams: bool = False,
        reads: bool = False,
        fences_itself: bool = False,
        accepted_at: str = "/v1/jobs/{}",
        upload_bytes_max: int | None = None,
        including: Including | None = None,
        replayed: Replayed | None = None,
        errors: tuple[type[AppError], ...] = (),
        responses: dict[int | str, dict[str, Any]] | None = None,
        **documented: Any,
    ) -> None:
        self.scope, self.transactional = scope, transactional
        # A read may be sent as a POST, where what it asks for is too much for a query.
        self.reads = reads or MUTATING.isdisjoint(documented["methods"])
        self.open_to_all, self.streams, self.errors = open_to_all, streams, errors
        self.run, self.including, self.replayed = endpoint, including, replayed
        # Whether the route holds the attempt of `Submission-Attempt` by rules of its own, as an append and a batch do.
        self.fences_itself = fences_itself
        # Where the work is looked at that a 202 has only accepted, by its id.
        self.accepted_at = accepted_at
        # How much is received as raw bytes, where that is not what every such route takes.
        self.upload_bytes_max = upload_bytes_max
        self.query_model: type[Query] | None = None
        self.body_model: type[Body] | None = None
        self.many_model: type[Body] | None = None
        self.takes_payload = False
        self.receives = False
        self.body_optional = False
        self.path_names: list[str] = []
        hints = typing.get_type_hints(endpoint, include_extras=True)
        self._read_signature(hints)
        self.batchable = batchable and not streams and not self.receives
        writes = not MUTATING.isdisjoint(documented["methods"])
        if self.query_model is not None and "cursor" in self.query_model.model_fields:
            errors = (*errors, BadCursor)
        super().__init__(
            path,
            documented_as(endpoint, hints),
            responses={**responses_of(errors, writes=writes, open_to_all=open_to_all), **(responses or {})},
            **documented,
        )

    def _read_signature(self, hints: dict[str, Any]) -> None:
        """Path parameters are `str`, the query is a `Query` model, the body a `Body` model, in any order.

        A body of `Received` is taken as raw bytes, up to a limit of its own, which may be many times the memory.
        A body of `One | Many` is read as `Many` where it has a member `items`, else as `One`.
        """
        for name in inspect.signature(self.run).parameters:
            kind = hints[name]
            bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
            if isinstance(bare, type) and issubclass(bare, Query):
                self.query_model, self._query_name = bare, name
            elif bodies := bodies_of(bare):
                self.body_model, self._body_name = bodies[0], name
                self.many_model = bodies[1] if len(bodies) > 1 else None
                self.body_optional = not any(info.is_required() for info in bodies[0].model_fields.values())
            elif isinstance(bare, type) and issubclass(bare, Verbatim):
                self.takes_payload, self._payload_kind, self._body_name = True, bare, name
            elif bare is Received:
                self.receives, self._body_name = True, name
            elif bare is str:
                self.path_names.append(name)

    async def perform(self, call: Call, path_values: list[str]) -> Answer | Response:
        """Carry the call out on the writer it has: check the scope, read the query and the body, run the handler."""
        if self.scope:
            call.caller.require(self.scope)
        arguments: dict[str, Any] = dict(zip(self.path_names, path_values, strict=True))
        query = call.scope["query_string"]
        if self.query_model is not None:
            arguments[self._query_name] = asked = read_query(query, self.query_model)
            if self.including is not None:
                self.including.shape.included(getattr(asked, "include", None))
        else:
            refuse_query(query)
        if self.body_model is not None:
            arguments[self._body_name] = await self._body(call)
        elif self.takes_payload:
            arguments[self._body_name] = await self._payload(call)
        elif self.receives:
            arguments[self._body_name] = call.received
        elif call.raw_body:
            self._no_body(call)
        return await self.run(call, **arguments)

    async def completed(
        self, call: Call, path_values: list[str], answer: Answer | Response, reader: Reader
    ) -> Answer | Response:
        """The answer to a write, or its replay, with the verbatim fields that `include` names."""
        query, including = call.scope["query_string"], self.including
        if including is None or not isinstance(answer, Answer) or not (query or including.always):
            return answer
        asked = None if self.query_model is None else read_query(query, self.query_model)
        include = including.wanted(getattr(asked, "include", None), answer)
        path = dict(zip(self.path_names, path_values, strict=True))
        return await including.shown(reader, call.tenant_id, path, include, answer) if include else answer

    async def serve(self, call: Call, path_values: list[str]) -> Answer | Response:
        """Carry the call out whole: in one statement or one transaction, once for each Idempotency-Key."""
        if self.receives and call.received is None:
            return await self._serve_received(call, path_values)
        answer = await self._carry_out(call, path_values)
        if "afterwards" in call.__dict__:
            for told in call.afterwards:
                await told()
        if "moved" in call.__dict__:
            call.ground.hints.publish(*dict.fromkeys(call.moved))
        if not isinstance(answer, Answer):
            return answer
        if self.replayed is not None and idempotency.REPLAYED in answer.headers:
            return await self.replayed(call, await self._body(call), answer)
        if answer.status == ACCEPTED and answer.body is not None:
            named = msgspec.json.decode(answer.body, type=_Named)
            location = self.accepted_at.format(quote(named.job_id or named.id, safe=""))
            answer = replace(answer, headers={**answer.headers, "Location": location})
        return await self.completed(call, path_values, answer, call.ground.database)

    async def _serve_received(self, call: Call, path_values: list[str]) -> Answer | Response:
        """Receive the bytes first, while no connection is held; what the head of the request forbids comes before."""
        call.caller.require(self.scope)
        if self.query_model is not None:
            read_query(call.scope["query_string"], self.query_model)
        declared = call.headers.get("content-length")
        settings = call.ground.settings
        bytes_max = self.upload_bytes_max or settings.upload_bytes_max
        async with receiving(call.receive, declared, settings, bytes_max) as call.received:
            # It may have taken hours: the key may be revoked by now, or the tenant closed.
            await call.check_caller()
            return await self.serve(call, path_values)

    async def _carry_out(self, call: Call, path_values: list[str]) -> Answer | Response:
        database, claim = call.ground.database, call.claim
        # What cannot be read is refused, also where nothing is written under it.
        attempt, lease = (call.fence, call.lease_fence) if call.method in MUTATING else (None, None)
        if self.reads or self.open_to_all:
            call.reader = database
            return await self.perform(call, path_values)

        call.held = Fences(None if self.fences_itself else attempt, lease)
        if call.held and self.scope:
            # Before they are looked at: who may not write is not told who owns what.
            call.caller.require(self.scope)

        async def effect() -> Answer | Response:
            if self.transactional:
                return await idempotency.in_transaction(call, lambda: self.perform(call, path_values))
            call.reader = call.writer = database.once(call.claim_tenant, claim, call.held)
            answer = await self.perform(call, path_values)
            if call.held and isinstance(call.writer, Once) and not call.writer.held:
                # Nothing was there to be written; what owns nothing hears of it all the same.
                await idempotency.hold(call, database, call.held)
            return answer

        return await (effect() if claim is None else idempotency.once(call, effect))

    @staticmethod
    def _check_type(call: Call) -> None:
        kind = call.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise UnsupportedMediaType("Send the body as application/json.")

    async def _payload(self, call: Call) -> Verbatim:
        self._check_type(call)
        raw, nesting_max = call.raw_body, call.ground.settings.nesting_max
        # What is small is read before a thread would have begun.
        small = len(raw) <= SMALL_BYTES
        payload = read_payload(raw, nesting_max) if small else await asyncio.to_thread(read_payload, raw, nesting_max)
        try:
            return self._payload_kind.checked(payload)
        except ValueError as error:
            raise invalid("", str(error)) from None

    def _no_body(self, call: Call) -> None:
        """Nothing is to be said here: an object without members says it; what more is sent is not ignored."""
        self._check_type(call)
        try:
            Body.model_validate(read_body(call.raw_body, Body, call.ground.settings.nesting_max))
        except ValidationError as error:
            raise rejected(error) from None

    async def _body(self, call: Call) -> Body:
        model = self.body_model
        assert model is not None
        self._check_type(call)
        raw, nesting_max = call.raw_body, call.ground.settings.nesting_max + model.levels_around
        if not raw and self.body_optional:
            cut: dict[str, Any] = {}
        elif len(raw) > THREAD_BYTES:
            cut = await asyncio.to_thread(read_body, raw, model, nesting_max, self.many_model)
        else:
            cut = read_body(raw, model, nesting_max, self.many_model)
        if self.many_model is not None and "items" in cut:
            model = self.many_model
        try:
            validated: Body = model.__pydantic_validator__.validate_python(cut)
            return validated
        except ValidationError as error:
            raise rejected(error) from None


class Routes(list[Endpoint]):
    """The endpoints of a domain, in the order in which they are documented."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag

    def _add(self, method: str, path: str, **options: Any) -> Callable[[Handler], Handler]:
        def added(handler: Handler) -> Handler:
            self.append(Endpoint(path, handler, methods=[method], tags=[self.tag], name=handler.__name__, **options))
            return handler

        return added

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A read; HEAD is answered too."""
        return self._add("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A create or an action."""
        return self._add("POST", path, **options)

    def put(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """An ensure or a replacement."""
        return self._add("PUT", path, **options)

    def patch(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A change of the members given."""
        return self._add("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A removal."""
        return self._add("DELETE", path, **options)


__all__ = ["Endpoint", "Routes"]
