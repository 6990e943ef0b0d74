"""What the tests of offboarding share: looking for a tenant everywhere, and carrying an offboarding out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from redis.asyncio import Redis

from app.blobs.folder import Folder
from app.bus.hints import EmbeddedHints
from app.bus.work import EmbeddedStreams, Streams
from app.cache.cache import Cache
from app.cache.embedded import EmbeddedCache
from app.db.database import Database
from app.http.service import Service
from app.offboarding.jobs import Offboarder
from app.settings import OffboardingSettings
from app.signing import Signer
from tests.conftest import http

AT_ONCE = OffboardingSettings(settle_seconds=0, batch_rows=3)
SIGNER = Signer(b"k" * 32)
# Nothing else that is stored holds this text by chance.
LEAVING, STAYING = "acme-e5d1", "acme-e5d1-2"


@dataclass
class Place:
    """A service with a rich tenant, and another one whose id begins with that tenant's."""

    service: Service
    operator: httpx.AsyncClient
    folder: Path
    runner: Offboarder
    clients: list[httpx.AsyncClient]

    async def connection(self) -> asyncpg.Connection:
        """One to its database."""
        return await asyncpg.connect(self.service.ground.database.url)

    async def client(self, tenant_id: str) -> httpx.AsyncClient:
        """Somebody with every right within a tenant."""
        key = {"name": "k", "scopes": ["admin", "*:read", "*:write"]}
        made = await self.operator.post("/v1/api-keys", json=key, headers={"x-tenant-id": tenant_id})
        assert made.status_code == 201, made.text
        self.clients.append(http(self.service, authorization=f"Bearer {made.json()['key']}"))
        return self.clients[-1]

    async def offboarding(self, offboarding_id: str) -> dict[str, Any]:
        """As the operator sees it."""
        answer = await self.operator.get(f"/v1/offboardings/{offboarding_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]


def offboarder(
    folder: Path,
    *,
    cache: Cache | None = None,
    streams: Streams | None = None,
    settings: OffboardingSettings = AT_ONCE,
    signer: Signer | None = SIGNER,
) -> Offboarder:
    """What carries offboardings out."""
    return Offboarder(
        settings, Folder(folder, 5), cache or EmbeddedCache(), streams or EmbeddedStreams(60), EmbeddedHints(), signer
    )


async def begun(operator: httpx.AsyncClient, tenant_id: str, database: Database | None = None) -> dict[str, Any]:
    """The offboarding, to be gone on with at once where the database is given."""
    answer = await operator.delete(f"/v1/tenants/{tenant_id}")
    assert answer.status_code == 202, answer.text
    if database is not None:
        await database.execute("UPDATE offboardings SET lease_expires_at = NULL WHERE state = 'closed'")
    return answer.json()  # type: ignore[no-any-return]


async def carried_out(runner: Offboarder, database: Database) -> int:
    """Go on until nothing waits any more; how often that was."""
    for turn in range(50):
        if not await runner.run(database, 1):
            return turn
        await asyncio.sleep(0)
    raise AssertionError("The offboarding does not end.")


async def places_in_tables(connection: asyncpg.Connection, text: str) -> list[str]:
    """Every table and column in which the text stands as a whole id, with the number of rows, partitions included."""
    columns = await connection.fetch(
        "SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables"
        " USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1, 2"
    )
    found = []
    for table, column, kind in columns:
        value = f"""encode("{column}", 'escape')""" if kind == "bytea" else f'CAST("{column}" AS text)'
        contains = f'SELECT count(*) FROM "{table}" WHERE {value} ~ $1'
        # Not as the beginning or the end of the id of another.
        if rows := await connection.fetchval(contains, rf"(?<![\w-]){text}(?![\w-])"):
            found.append(f"{table}.{column}: {rows}")
    return found


def places_in_folder(folder: Path, text: str) -> list[str]:
    """Every name below the folder in which the text stands."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if text in str(path.relative_to(folder))]


async def places_in_redis(url: str, text: str) -> list[str]:
    """Every key that holds the text, in its name or its value."""
    found = []
    async with Redis.from_url(url) as redis:
        async for key in redis.scan_iter(count=1000):
            kind = await redis.type(key)
            value = await (redis.hgetall(key) if kind == b"hash" else redis.get(key))
            if text.encode() in key or text in repr(value):
                found.append(key.decode(errors="replace"))
    return found


async def places_in_streams(url: str, text: str) -> list[str]:
    """Every message of every stream in which the text stands."""
    import nats  # noqa: PLC0415 - only where there is one

    found = []
    client = await nats.connect(url)
    try:
        streams = client.jetstream()
        for info in await streams.streams_info():
            state = info.state
            for number in range(max(1, state.first_seq), state.last_seq + 1):
                try:
                    message = await streams.get_msg(info.config.name, seq=number)
                except Exception as error:
                    if "no message found" not in str(error):
                        raise
                    continue
                if text.encode() in (message.data or b"") or text in json.dumps(message.headers or {}):
                    found.append(f"{info.config.name} {number}")
    finally:
        await client.close()
    return found
