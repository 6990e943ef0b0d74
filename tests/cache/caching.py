"""Caches of the tests, of each kind, and a Redis of one's own that dies, hangs and comes back."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis as library

from app.cache.cache import Cache, Key
from app.cache.embedded import EmbeddedCache
from app.cache.redis import RedisCache
from app.cache.tolerant import TolerantCache
from app.embedded import Servers, start_servers
from app.embedded.process import free_port
from tests.conftest import ADMIN_KEY
from tests.waiting import until

KEY = Key("thing", "acme", "1")
# A machine that is busy with other tests is not taken for a Redis that hangs.
PATIENT_SECONDS = 5.0


def own_redis(folder: Path, port: int) -> Servers:
    """A server of its own, found again by the next start; it comes back empty."""
    return start_servers(folder, postgres=False, nats=False, fast=True, ports={"redis": port})


@contextmanager
def debian_redis(folder: Path) -> Iterator[str]:
    """The URL of Redis itself, where its server is on PATH."""
    program = shutil.which("redis-server")
    assert program is not None
    port = free_port()
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    url = f"redis://127.0.0.1:{port}/0"
    try:
        until(lambda: answers(url), "Redis")
        yield url
    finally:
        process.kill()
        process.wait(10)


def answers(url: str) -> bool:
    """Whether a Redis answers there."""
    try:
        with library.Redis.from_url(url, socket_timeout=1) as client:
            return bool(client.ping())
    except library.RedisError:
        return False


@asynccontextmanager
async def cache(kind: str, url: str, prefix: str = "", wait_seconds: float = PATIENT_SECONDS) -> AsyncIterator[Cache]:
    """A cache of this kind, open, with keys of its own."""
    prefix = prefix or f"t{uuid.uuid4().hex}"
    made: Cache
    if kind == "embedded":
        made = EmbeddedCache()
    elif kind == "redis":
        made = RedisCache(url, prefix, wait_seconds)
    else:
        made = TolerantCache(lambda: RedisCache(url, prefix, wait_seconds))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@contextmanager
def looking(url: str) -> Iterator[Any]:
    """A plain client of Redis."""
    with library.Redis.from_url(url) as client:
        yield client


async def limited(url: str, limits: dict[str, Any]) -> httpx.AsyncClient:
    """A client of a new tenant with these limits, at a served API."""
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {ADMIN_KEY}"}) as operator:
        assert (await operator.put("/v1/tenants/acme", json={})).status_code == 201
        assert (await operator.put("/v1/tenants/acme/limits", json=limits)).json() == limits
        key = await operator.post("/v1/api-keys", json={"name": "k", "scopes": ["*"]}, headers={"x-tenant-id": "acme"})
    return httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key.json()['key']}"})
