"""What is written without an embedding gets it from the service, in each space; a vector never outlives its item."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from app.background.runner import drain
from app.db.sql import Statement
from app.memory.partitions import table_of
from tests.memory.embedding_server import embedding_server, vector
from tests.memory.reembedding import Memory, remembering
from tests.statements import one_connection, sent_by
from tests.waiting import held_up

RECORDS = "/v1/memory/records"


@pytest.fixture(scope="module")
async def url(kept_clone: Callable[[], Awaitable[str]]) -> str:
    return await kept_clone()


@pytest.fixture
async def memory(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Memory]:
    monkeypatch.setattr("app.embeddings.endpoint.PAUSE_SECONDS", 0.0)
    async with embedding_server() as server, remembering(url, server) as made:
        await made.space("a", 8)
        yield made


async def stored(memory: Memory, name: str) -> dict[str, str | None]:
    """What each item has in a space, as text."""
    table = table_of(await memory.number(name))
    rows = await memory.database.rows(
        Statement(f"SELECT id, CAST(embedding AS text) AS embedding FROM {table} WHERE tenant_id = :tenant_id"),
        tenant_id=memory.tenant,
    )
    return {row["id"]: row["embedding"] for row in rows}


async def test_an_item_is_embedded_for_the_active_space_and_for_those_that_are_filled(memory: Memory) -> None:
    await memory.space("b", 16)
    await memory.reembed("b")
    made = await memory.client.post(RECORDS, json={"id": "r", "content": "one two"})
    assert (made.status_code, made.json()["embedded"]) == (201, True)
    asked = [(one["model"], one["input"]) for one in memory.server.asked]
    assert asked == [("a-8", ["one two"]), ("b-16", ["one two"])]
    shown = (await memory.client.get(f"{RECORDS}/r?include=embedding")).json()["embedding"]
    assert shown == pytest.approx(vector("a-8", "one two"), abs=1e-6)
    assert (await stored(memory, "b"))["r"] is not None
    await memory.client.patch(f"{RECORDS}/r", json={"metadata": {"a": 1}, "content": "one two"})
    assert len(memory.server.asked) == 2
    changed = await memory.client.patch(f"{RECORDS}/r", json={"content": "three"})
    assert (changed.json()["embedded"], memory.server.texts[2:]) == (True, ["three", "three"])
    shown = (await memory.client.get(f"{RECORDS}/r?include=embedding")).json()["embedding"]
    assert shown == pytest.approx(vector("a-8", "three"), abs=1e-6)
    given = await memory.client.patch(f"{RECORDS}/r", json={"content": "four", "embedding": [1.0] * 8})
    assert (given.json()["embedded"], memory.server.texts[4:]) == (True, ["four"])


async def test_a_write_with_its_embedding_is_one_statement(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        await client.put("/v1/memory/spaces/a", json={"model": "m", "dimensions": 2})
        item = {"content": "x", "embedding": [1, 2]}
        assert (await client.post(RECORDS, json={"id": "first", **item})).status_code == 201
        async with sent_by(service) as statements:
            assert (await client.post(RECORDS, json={"id": "r", **item})).status_code == 201
            keyed = await client.post(RECORDS, json={"items": [item, item]}, headers={"idempotency-key": "k"})
            assert keyed.status_code == 201
            assert (await client.get(f"{RECORDS}/r")).status_code == 200
            assert (await client.delete(f"{RECORDS}/r")).status_code == 204
        assert len(statements) == 4


async def test_who_deletes_takes_the_vector_that_was_written_while_it_waited(memory: Memory) -> None:
    await memory.space("b", 2)
    await memory.client.post(RECORDS, json={"id": "r", "content": "x"})
    number = await memory.number("b")
    connection = await asyncpg.connect(memory.database.url)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM memory_items WHERE tenant_id = $1 AND id = 'r' FOR NO KEY UPDATE", memory.tenant
            )
            deleting = asyncio.create_task(memory.client.delete(f"{RECORDS}/r"))
            await held_up(memory.service)
            await connection.execute(
                f"INSERT INTO {table_of(number)} (tenant_id, space_number, kind, id, lexemes)"
                " VALUES ($1, $2, 'record', 'r', '')",
                memory.tenant,
                number,
            )
    finally:
        await connection.close()
    assert (await deleting).status_code == 204
    assert [await stored(memory, name) for name in ("a", "b")] == [{}, {}]


async def test_who_deletes_waits_for_a_change_of_spaces_before_it_holds_the_item(memory: Memory) -> None:
    """As every write does: in another order a change of spaces could stand between two that wait for each other."""
    await memory.client.post(RECORDS, json={"id": "r", "content": "x"})
    connection = await asyncpg.connect(memory.database.url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT cairn_change_spaces($1)", memory.tenant)
            deleting = asyncio.create_task(memory.client.delete(f"{RECORDS}/r"))
            await held_up(memory.service)
            taken = "SELECT count(*) FROM (SELECT FROM memory_items WHERE tenant_id = $1 FOR UPDATE NOWAIT) AS free"
            assert await connection.fetchval(taken, memory.tenant) == 1
    finally:
        await connection.close()
    assert (await deleting).status_code == 204


async def test_whatever_meets_no_vector_is_left_without_its_item_or_of_another_text(memory: Memory) -> None:
    await memory.space("b", 16)
    await memory.reembed("b")
    order, client = random.Random(25), memory.client
    ids = [f"r{n}" for n in range(4)]

    async def write(n: int) -> int:
        item_id, content = order.choice(ids), f"text {n}"
        match order.randrange(3):
            case 0:
                answer = await client.post(RECORDS, json={"id": item_id, "content": content})
            case 1:
                answer = await client.patch(f"{RECORDS}/{item_id}", json={"content": content})
            case _:
                answer = await client.delete(f"{RECORDS}/{item_id}")
        return answer.status_code

    for round_ in range(6):
        writing = asyncio.gather(*(write(round_ * 100 + n) for n in range(16)))
        await asyncio.gather(writing, drain(memory.runner().run, memory.database))
        assert set(await writing) <= {200, 201, 204, 404, 409}
        await memory.reembed("b")
    items = {item["id"]: item["content"] for item in (await client.get(RECORDS)).json()["items"]}
    assert items
    for name, model in (("a", "a-8"), ("b", "b-16")):
        found = await stored(memory, name)
        assert found.keys() == items.keys(), name
        for item_id, content in items.items():
            numbers = [float(number) for number in (found[item_id] or "").strip("[]").split(",")]
            assert numbers == pytest.approx(vector(model, content), abs=1e-6), (name, item_id)
