"""The statements that the service itself sends for a request: seen on the connection, so none can be left out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import httpx

from app.main import create_app
from app.settings import Settings
from benchmarks.limit import Query, captured_from, replaced
from benchmarks.request import CAPTURED, UNIQUE, Request


async def recorded(settings: Settings, bearer: str, requests: Sequence[Request]) -> tuple[list[list[Query]], bytes]:
    """What each request sends to PostgreSQL once keys are known, marks still in place; and the last answer's body.

    Raises `AssertionError` when a request is refused.
    """
    database = settings.database.model_copy(update={"pool_min": 1, "pool_max": 1})
    background = settings.background.model_copy(update={"enabled": False})
    service = create_app(settings.model_copy(update={"database": database, "background": background}))
    seen: list[Query] = []

    def note(query: asyncpg.connection.LoggedQuery) -> None:
        seen.append(Query(query.query, tuple(query.args or ())))

    sent: list[list[Query]] = []
    body = b""
    async with service.router.lifespan_context(service):
        transport = httpx.ASGITransport(app=service)
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers) as client:
            async with service.ground.database.writing() as transaction:
                transaction.connection.add_query_logger(note)
            # On its first use of a type the driver asks PostgreSQL about it; that is no part of the request. Each time
            # everything is new, as it is under load.
            for mark in (secrets.token_hex(7), secrets.token_hex(7)):
                sent.clear()
                by = {UNIQUE: mark}
                for request in requests:
                    seen.clear()
                    body = await _body(client, request, by)
                    # The driver tells of a statement in the next turn of the loop.
                    await asyncio.sleep(0)
                    sent.append([Query(query.text, _marked(query.arguments, by)) for query in seen])
                    if any(mark in repr(requests) for mark in CAPTURED):
                        by |= captured_from(body)
    return sent, body


async def _body(client: httpx.AsyncClient, request: Request, by: Mapping[str, str]) -> bytes:
    def filled(text: str) -> str:
        for mark, value in by.items():
            text = text.replace(mark, value)
        return text

    headers = {name: filled(value) for name, value in request.headers.items()}
    answer = await client.request(
        request.method,
        filled(request.path),
        content=filled(request.body) or None,
        headers={**headers, "Content-Type": "application/json"},
    )
    assert answer.is_success, answer.text
    return answer.content


def _marked(arguments: tuple[Any, ...], by: Mapping[str, str]) -> tuple[Any, ...]:
    for mark, value in by.items():
        arguments = replaced(arguments, value, mark)
    return arguments
