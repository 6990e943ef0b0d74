"""What is stored is checked against its digest before it is sent; damage is an error, never other bytes."""

from __future__ import annotations

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.attachments.uploads import MIB, get, put, reference, sample
from tests.conftest import new_tenant
from tests.payloads import problem

DAMAGE = {
    "a byte": "UPDATE content_chunks SET bytes = set_byte(bytes, 9, get_byte(bytes, 9) # 1) WHERE position = {at}",
    "a byte more": "UPDATE content_chunks SET bytes = bytes || '\\x00' WHERE position = {at}",
    "a byte less": "UPDATE content_chunks SET bytes = substr(bytes, 2) WHERE position = {at}",
    "a chunk": "DELETE FROM content_chunks WHERE position = {at}",
}


async def damage(fresh: Service, sql: str) -> None:
    connection = await asyncpg.connect(fresh.ground.database.url)
    try:
        assert (await connection.execute(sql)).endswith(" 1")
    finally:
        await connection.close()


@pytest.fixture
async def own(fresh: Service) -> httpx.AsyncClient:
    """A client of a service whose database may be damaged."""
    return await new_tenant(fresh)


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(("size", "at"), [(5000, 0), (3 * MIB + 5000, 0), (3 * MIB + 5000, 3)])
async def test_damage_is_an_error_before_the_first_byte(
    fresh: Service, own: httpx.AsyncClient, size: int, at: int, kind: str
) -> None:
    await put(own, sample(size))
    await damage(fresh, DAMAGE[kind].format(at=at))
    refused = await get(own)
    assert problem(refused) == (500, "attachment_integrity")
    assert refused.json()["reason"] == "chunks"
    inside = f"bytes={at * MIB + 1}-{at * MIB + 2}"
    assert problem(await get(own, {"range": inside})) == (500, "attachment_integrity")
    if size > MIB:
        whole = await get(own, {"range": f"bytes={MIB + 3}-{2 * MIB + 3}"})
        assert (whole.status_code, whole.content) == (206, sample(size)[MIB + 3 : 2 * MIB + 4])


async def test_damage_that_fits_its_own_digest_never_makes_a_whole_answer(
    fresh: Service, own: httpx.AsyncClient
) -> None:
    content = sample(3 * MIB)
    await put(own, content)
    await damage(
        fresh,
        "WITH other AS (SELECT set_byte(bytes, 0, 7) AS bytes FROM content_chunks WHERE position = 1)"
        " UPDATE content_chunks AS c SET bytes = o.bytes, digest = sha256(o.bytes) FROM other AS o WHERE position = 1",
    )
    received = b""
    query = {name: reference(content)[name] for name in ("path", "id", "conversation_id")}
    async with own.stream("GET", "/v1/attachments", params=query) as answer:
        async for part in answer.aiter_bytes():
            received += part
    assert int(answer.headers["content-length"]) == len(content) > len(received)
