"""Small ways to put contexts and to get them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import httpx

MIB = 1024 * 1024
PATTERN = bytes(range(256)) * 4096


def sample(size: int) -> bytes:
    """So many bytes, no two MiB of them alike."""
    return b"".join(b"%d" % number + PATTERN for number in range(size // MIB + 1))[:size]


def at(key: str, scope: str = "workflow", invocation: str = "i") -> str:
    """The path of a context; `..` is sent encoded."""
    return f"/v1/invocations/{quote(invocation, safe='')}/contexts/{quote(scope, safe='')}/{quote(key, safe='')}"


async def put(
    client: httpx.AsyncClient,
    key: str = "k",
    content: bytes = b"data",
    kind: str | None = "text/plain",
    headers: dict[str, str] | None = None,
    scope: str = "workflow",
    invocation: str = "i",
    **query: Any,
) -> httpx.Response:
    """Put a context."""
    told = {**({} if kind is None else {"content-type": kind}), **(headers or {})}
    return await client.put(at(key, scope, invocation), content=content, headers=told, params=query)


async def get(
    client: httpx.AsyncClient,
    key: str = "k",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    scope: str = "workflow",
    invocation: str = "i",
    **query: Any,
) -> httpx.Response:
    """Get a context."""
    return await client.request(method, at(key, scope, invocation), headers=headers or {}, params=query)


async def keys(client: httpx.AsyncClient, invocation: str = "i", **query: Any) -> list[str]:
    """The keys that a list has."""
    answer = await client.get(f"/v1/invocations/{invocation}/contexts", params=query)
    assert answer.status_code == 200, answer.text
    return [item["key"] for item in answer.json()["items"]]


async def post(client: httpx.AsyncClient, call: str, invocation: str = "i", **body: Any) -> httpx.Response:
    """Copy, move or clear."""
    return await client.post(f"/v1/invocations/{invocation}/contexts/{call}", json=body)


def told(answer: httpx.Response) -> dict[str, str]:
    """What the headers tell of a context, decoded."""
    return {
        name.removeprefix("context-"): unquote(value)
        for name, value in answer.headers.items()
        if name.startswith("context-")
    }
