"""Small ways to put attachments and to get them."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx

PATH = "agents/echo/i1"
MIB = 1024 * 1024
PATTERN = bytes(range(256)) * 4096


def sample(size: int) -> bytes:
    """So many bytes, no two chunks of them alike."""
    return b"".join(b"%d" % number + PATTERN for number in range(size // MIB + 1))[:size]


def reference(content: bytes, **fields: Any) -> dict[str, Any]:
    """The query that puts the bytes, with other fields than the usual where they are named."""
    usual = {"path": PATH, "id": "a", "conversation_id": "c", "mime_type": "image/png", "size": len(content),
             "digest": hashlib.sha256(content).hexdigest()}  # fmt: skip
    return {**usual, **fields}


async def put(
    client: httpx.AsyncClient, content: bytes, headers: dict[str, str] | None = None, **fields: Any
) -> httpx.Response:
    """Put an attachment."""
    return await client.put(
        "/v1/attachments", params=reference(content, **fields), content=content, headers=headers or {}
    )


async def get(
    client: httpx.AsyncClient, headers: dict[str, str] | None = None, method: str = "GET", **fields: Any
) -> httpx.Response:
    """Get an attachment."""
    query = {"path": PATH, "id": "a", "conversation_id": "c", **fields}
    return await client.request(method, "/v1/attachments", params=query, headers=headers or {})
