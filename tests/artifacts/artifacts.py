"""What the tests of artifacts send and ask."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import httpx

from app.http.service import Service

MIB = 1024 * 1024


def sample(size: int, seed: int = 1) -> bytes:
    """Bytes of this size, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def hash_of(content: bytes) -> str:
    """The SHA-256, as artifacts are named."""
    return hashlib.sha256(content).hexdigest()


async def store(client: httpx.AsyncClient, content: bytes, **options: Any) -> httpx.Response:
    """Send bytes."""
    return await client.post("/v1/artifacts", content=content, **options)


async def refer(client: httpx.AsyncClient, invocation_id: str, name: str, content: bytes, **fields: Any) -> Any:
    """Have a name stand for bytes."""
    path = f"/v1/invocations/{invocation_id}/artifacts/{name}"
    return await client.put(path, json={"hash": hash_of(content), **fields})


def folder_of(service: Service) -> Path:
    """Where the objects of a service lie."""
    return service.ground.blobs.folder  # type: ignore[attr-defined,no-any-return]


def files_of(client: httpx.AsyncClient, service: Service) -> list[str]:
    """The names of the files of the client's tenant."""
    return sorted(file.name for file in (folder_of(service) / client.headers["x-test-tenant"]).glob("*"))
