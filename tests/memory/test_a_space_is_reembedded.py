"""`reembed` gives whatever lacks one its embedding in a space: in steps, while others write, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.http.service import Service
from app.memory.embedding_store import REEMBED_KIND
from app.memory.reembedding import Reembedding
from tests.conftest import Make
from tests.memory import embedding_server as served
from tests.memory.embedding_server import EmbeddingServer, embedding_server
from tests.memory.reembedding import Memory, approximately, numbered, remembering
from tests.payloads import problem
from tests.waiting import eventually, held_up

DUE = Statement("UPDATE jobs SET lease_expires_at = clock_timestamp() WHERE tenant_id = :t AND state = 'running'")


@pytest.fixture(scope="module")
async def url(kept_clone: Callable[[], Awaitable[str]]) -> str:
    return await kept_clone()


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as started:
        yield started


@pytest.fixture
async def memory(url: str, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Memory]:
    monkeypatch.setattr("app.embeddings.endpoint.PAUSE_SECONDS", 0.0)
    async with remembering(url, server) as made:
        await drain(made.runner().run, made.database)
        yield made


async def test_what_lacks_an_embedding_gets_one_in_steps_with_progress(memory: Memory) -> None:
    texts = numbered(10)
    await memory.space("a", 16)
    await memory.remember(*texts)
    path = await memory.reembed("a")
    queued = await memory.job(path)
    assert (queued["kind"], queued["state"], queued["arguments"]["space"]) == ("memory.reembed", "queued", "a")
    await memory.runner().run(memory.database, 1)
    first = await memory.job(path)
    assert (first["state"], first["progress"], first["counts"]["embedded"]) == ("running", {"done": 4, "total": 10}, 4)
    await drain(memory.runner().run, memory.database)
    done = await memory.job(path)
    assert (done["state"], done["progress"], done["error"]) == ("completed", {"done": 10, "total": 10}, None)
    assert done["counts"] == {"embedded": 10, "failed": 0, "changed": 0}
    assert done["report"] == {"space": "a", "failed": []}
    assert await memory.embedded("a") == approximately("a-16", *texts)
    assert sorted(memory.server.texts) == sorted(texts)
    # Again, there is nothing to do.
    again = await memory.reembed("a")
    assert again != path
    await drain(memory.runner().run, memory.database)
    assert (await memory.job(again))["progress"] == {"done": 0, "total": 0}
    assert len(memory.server.texts) == 10


async def test_a_step_reads_only_so_many_bytes(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.memory.embedding_store.CONTENT_BYTES_MAX", 20)
    await memory.space("a")
    await memory.remember("x" * 15, "y" * 15, "z" * 50, "w")
    path = await memory.reembed("a")
    progress = []
    for _ in range(3):
        await memory.runner().run(memory.database, 1)
        progress.append((await memory.job(path))["progress"]["done"])
    assert progress == [2, 3, 4]


async def test_a_space_that_is_not_active_is_filling_from_then_on(memory: Memory) -> None:
    await memory.space("a")
    await memory.space("b", 16)
    before = (await memory.client.get("/v1/memory/spaces/b")).headers["etag"]
    first = await memory.reembed("b")
    assert await memory.reembed("b") == first, "one that has not ended"
    found = await memory.client.get("/v1/memory/spaces/b")
    assert (found.json()["active"], found.json()["filling"], found.headers["etag"] != before) == (False, True, True)
    other = await memory.reembed("a")
    assert other != first
    assert (await memory.client.get("/v1/memory/spaces/a")).json()["filling"] is False
    await memory.client.post(f"{first}/cancel")
    assert await memory.reembed("b") != first


async def test_both_kinds_of_items_and_other_tenants_are_told_apart(
    memory: Memory, url: str, server: EmbeddingServer
) -> None:
    await memory.space("a")
    await memory.remember("red", "green")
    await memory.remember("blue", kind="record", prefix="r")
    async with remembering(url, server) as other:
        await other.space("a")
        await other.remember("theirs")
        await memory.reembed("a")
        await drain(memory.runner().run, memory.database)
        assert await memory.embedded("a") == approximately("a-8", "red", "green") | approximately(
            "a-8", "blue", prefix="r"
        )
        assert await other.embedded("a") == {}


async def test_what_fails_is_counted_and_named_and_the_rest_goes_on(memory: Memory) -> None:
    texts = numbered(9)
    texts[2], texts[7] = "bad", "endless"
    memory.server.spoil = served.spoiling("bad", [1.0] * 5)
    memory.server.always = served.refusing_texts("endless")
    await memory.space("a")
    await memory.remember(*texts)
    path = await memory.reembed("a")
    await drain(memory.runner().run, memory.database)
    done = await memory.job(path)
    assert (done["state"], done["progress"]) == ("completed", {"done": 9, "total": 9})
    assert done["counts"] == {"embedded": 7, "failed": 2, "changed": 0}
    assert [(one["kind"], one["id"], one["code"]) for one in done["report"]["failed"]] == [
        ("document", "i0002", "embedding_size"),
        ("document", "i0007", "embedding_refused"),
    ]
    assert (done["report"]["failed"][0]["expected"], done["report"]["failed"][0]["given"]) == (8, 5)
    assert set(await memory.embedded("a")) == {f"i{n:04}" for n in range(9)} - {"i0002", "i0007"}
    refused = await memory.client.post("/v1/memory/spaces/a/reembed")
    assert refused.status_code == 202
    memory.server.spoil = memory.server.always = None
    await drain(memory.runner().run, memory.database)
    assert await memory.embedded("a") == approximately("a-8", *texts)


async def test_a_vector_that_a_space_cannot_compare_is_a_failure(memory: Memory) -> None:
    memory.server.spoil = served.spoiling("faint", [1e-20] * 8)
    await memory.space("a")
    await memory.remember("faint", "red")
    path = await memory.reembed("a")
    await drain(memory.runner().run, memory.database)
    done = await memory.job(path)
    assert done["counts"] == {"embedded": 1, "failed": 1, "changed": 0}
    assert [(one["id"], one["code"]) for one in done["report"]["failed"]] == [("i0000", "embedding_unusable")]
    assert set(await memory.embedded("a")) == {"i0001"}


async def test_a_service_that_is_away_is_waited_for_and_nothing_is_half_stored(memory: Memory) -> None:
    texts = numbered(10)
    await memory.space("a")
    await memory.remember(*texts)
    path = await memory.reembed("a")
    await memory.runner().run(memory.database, 1)
    await memory.server.stop()
    for tries in range(1, 15):
        await memory.database.rows(DUE, t=memory.tenant)
        assert await memory.runner().run(memory.database, 10) == 1
        waiting = await memory.job(path)
        assert (waiting["state"], waiting["error"]["code"], waiting["error"]["tries"]) == (
            "running", "embedder_unavailable", tries,
        )  # fmt: skip
        assert waiting["progress"]["done"] == 4
    assert len(await memory.embedded("a")) == 4
    await memory.server.start()
    await memory.database.rows(DUE, t=memory.tenant)
    await drain(memory.runner().run, memory.database)
    done = await memory.job(path)
    assert (done["state"], done["error"], done["counts"]["embedded"]) == ("completed", None, 10)
    assert await memory.embedded("a") == approximately("a-8", *texts)


async def test_a_refusal_of_the_service_ends_the_job_with_the_reason_and_it_can_be_asked_for_again(
    memory: Memory,
) -> None:
    await memory.space("a")
    await memory.remember(*numbered(6))
    memory.server.always = served.refusing(401)
    path = await memory.reembed("a")
    await drain(memory.runner().run, memory.database)
    failed = await memory.job(path)
    assert (failed["state"], failed["error"]["code"], failed["error"]["endpoint_status"]) == (
        "failed", "embedder_refused", 401,
    )  # fmt: skip
    memory.server.always = None
    again = await memory.reembed("a")
    await drain(memory.runner().run, memory.database)
    assert (await memory.job(again))["counts"]["embedded"] == 6


async def test_what_is_changed_or_deleted_meanwhile_is_embedded_as_it_is_then(memory: Memory) -> None:
    """Between reading an item and writing its embedding, the item gets another text."""
    texts = numbered(6)
    await memory.space("a")
    await memory.remember(*texts)
    gate = asyncio.Event()
    memory.server.faults = [served.waiting_for(gate)]
    path = await memory.reembed("a")
    running = asyncio.create_task(drain(memory.runner().run, memory.database))

    async def asked() -> bool:
        return bool(memory.server.asked)

    await eventually(asked, "the request")
    change = "UPDATE memory_items SET content = :text, revision = revision + 1 WHERE tenant_id = :t AND id = :id"
    await memory.database.rows(Statement(change), t=memory.tenant, id="i0001", text="changed")
    delete = Statement("DELETE FROM memory_items WHERE tenant_id = :t AND id = :id")
    await memory.database.rows(delete, t=memory.tenant, id="i0003")
    gate.set()
    await running
    done = await memory.job(path)
    assert (done["state"], done["counts"]) == ("completed", {"embedded": 5, "failed": 0, "changed": 0})
    texts[1] = "changed"
    expected = approximately("a-8", *texts)
    del expected["i0003"]
    assert await memory.embedded("a") == expected


async def test_a_space_that_is_deleted_meanwhile_ends_the_job(memory: Memory) -> None:
    await memory.space("a")
    await memory.space("b")
    await memory.remember(*numbered(6))
    path = await memory.reembed("b")
    await memory.runner().run(memory.database, 1)
    assert (await memory.client.delete("/v1/memory/spaces/b")).status_code == 204
    await drain(memory.runner().run, memory.database)
    failed = await memory.job(path)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "memory_space_not_found")


@asynccontextmanager
async def an_item_under_way(memory: Memory) -> AsyncIterator[None]:
    """Somebody remembers `r` by the spaces as they are now, and commits when the block ends."""
    connection = await asyncpg.connect(memory.database.url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT cairn_hold_spaces($1, NULL)", memory.tenant)
            await connection.execute(
                "INSERT INTO memory_items (tenant_id, kind, id, content, digest) VALUES ($1, 'record', 'r', 'red', '')",
                memory.tenant,
            )
            yield
    finally:
        await connection.close()


async def test_what_is_written_while_a_space_begins_to_be_filled_is_embedded(memory: Memory) -> None:
    for name in ("a", "b"):
        await memory.space(name)
    async with an_item_under_way(memory):
        asking = asyncio.create_task(memory.reembed("b"))
        await held_up(memory.service)
    await asking
    await drain(memory.runner().run, memory.database)
    assert set(await memory.embedded("b")) == {"r"}


async def test_what_is_written_while_a_space_is_activated_is_not_forgotten(memory: Memory) -> None:
    """Nothing lacks an embedding when it is looked for, but something is being written that the space does not get."""
    for name in ("a", "b"):
        await memory.space(name)
    async with an_item_under_way(memory):
        activating = asyncio.create_task(memory.client.post("/v1/memory/spaces/b/activate"))
        await held_up(memory.service)
    refused = await activating
    assert (problem(refused), refused.json()["missing"]) == ((409, "memory_space_incomplete"), 1)
    allowed = await memory.client.post("/v1/memory/spaces/b/activate", json={"allow_incomplete": True})
    assert (allowed.status_code, allowed.json()["active"]) == (200, True)


async def test_without_an_embedding_service_the_job_says_so(memory: Memory, service: Service, make: Make) -> None:
    absent = await memory.client.post("/v1/memory/spaces/absent/reembed")
    assert problem(absent) == (404, "memory_space_not_found")
    await make.client.put("/v1/memory/spaces/a", json={"model": "m", "dimensions": 3})
    asked = await make.client.post("/v1/memory/spaces/a/reembed")
    await drain(JobRunner({REEMBED_KIND: Reembedding(None, 1)}, 30, service.ground.hints).run, service.ground.database)
    failed = (await make.client.get(asked.headers["location"])).json()
    assert (failed["state"], failed["error"]["code"]) == ("failed", "embedder_missing")
    assert "CAIRN_EMBEDDER__URL" in failed["error"]["detail"]
    batched = await make.client.post(
        "/v1/batch", json={"operations": [{"method": "POST", "path": "/v1/memory/spaces/a/reembed"}]}
    )
    assert batched.status_code == 422
