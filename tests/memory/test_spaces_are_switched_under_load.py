"""Another model under load: searches and writes go on while its space is made, filled, activated, the old one gone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from app.background.runner import drain
from app.memory.jobs import drop_deleted_spaces
from tests.memory.embedding_server import embedding_server, vector
from tests.memory.reembedding import Memory, numbered, remembering
from tests.waiting import eventually

MODELS = {"old": "old-8", "new": "new-16"}
WORDS = ("red", "green", "blue")
DOCUMENTS = "/v1/memory/documents"
TOP = 5


def near(model: str, one: str, other: str) -> float:
    """The score of two texts by a model: 1 - their cosine distance."""
    return sum(a * b for a, b in zip(vector(model, one), vector(model, other), strict=True))


class Load:
    """Searches and writes, again and again until told to stop; each looks at what it is answered."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.stop = asyncio.Event()
        self.seen: list[str] = []
        self.written = 0
        self.expected: set[str] = {"old"}

    async def search(self, word: str) -> None:
        """Find what is near a word; every score is that of the model of the one space that the answer names."""
        for mode in itertools.cycle(("vector", "hybrid")):
            if self.stop.is_set():
                return
            possible = set(self.expected)
            body = {"query": word, "mode": mode, "top_k": TOP, "explain": True}
            answer = await self.client.post("/v1/memory/search", json=body)
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert found["space"] in possible | self.expected
            self.seen.append(found["space"])
            assert len(found["items"]) == TOP
            for hit in found["items"]:
                by_vector = hit["explain"]["vector"]
                if by_vector is not None:
                    expected = near(MODELS[found["space"]], word, hit["content"])
                    assert abs(by_vector["score"] - expected) < 1e-5, (found["space"], hit)

    async def write(self, name: str) -> None:
        """Remember something, change it, forget some of it."""
        for number in itertools.count():
            if self.stop.is_set():
                return
            item = f"{DOCUMENTS}/{name}{number}"
            body = {"id": f"{name}{number}", "content": f"{WORDS[number % 3]} {name} {number}"}
            made = await self.client.post(DOCUMENTS, json=body)
            assert (made.status_code, made.json().get("embedded")) == (201, True), made.text
            changed = await self.client.patch(item, json={"content": f"{body['content']} anew"})
            assert changed.status_code == 200, changed.text
            if number % 3 == 0:
                assert (await self.client.delete(item)).status_code == 204
            self.written += 1

    async def goes_on(self) -> None:
        """Until so much more was done, by whatever state it finds."""
        searches, writes = len(self.seen) + 10, self.written + 4

        async def more() -> bool:
            return len(self.seen) >= searches and self.written >= writes

        await eventually(more, "more searches and writes")


async def test_no_search_fails_and_none_mixes_spaces(clone: Callable[[], Awaitable[str]]) -> None:
    async with embedding_server() as server, remembering(await clone(), server) as memory:
        await memory.space("old", 8)
        items = [{"id": f"i{n}", "content": text} for n, text in enumerate(numbered(60, WORDS))]
        assert (await memory.client.post(DOCUMENTS, json={"items": items})).status_code == 201
        load = Load(memory.client)
        async with asyncio.TaskGroup() as tasks:
            for word in WORDS:
                tasks.create_task(load.search(word), name="load")
            for name in ("a", "b"):
                tasks.create_task(load.write(name), name="load")
            try:
                await switch(memory, load)
            finally:
                load.stop.set()
        assert set(load.seen) == {"old", "new"}
        await whole(memory)


async def switch(memory: Memory, load: Load) -> None:
    """Make the new space, fill it, activate it, drop the old one; the load goes on after each."""
    await load.goes_on()
    await memory.space("new", 16)
    await load.goes_on()
    path = await memory.reembed("new")
    await asyncio.gather(drain(memory.runner().run, memory.database), load.goes_on())
    job = await memory.job(path)
    assert (job["state"], job["counts"]["failed"]) == ("completed", 0), job
    load.expected = {"old", "new"}
    activated = await memory.client.post("/v1/memory/spaces/new/activate")
    assert activated.status_code == 200, activated.text
    load.expected = {"new"}
    await load.goes_on()
    assert (await memory.client.delete("/v1/memory/spaces/old")).status_code == 204
    await load.goes_on()
    await drain(drop_deleted_spaces, memory.database)
    await load.goes_on()


async def whole(memory: Memory) -> None:
    """Everything that is remembered lies in the new space as its model says, and nothing else does."""
    contents: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        asked = {"limit": "1000", **({"cursor": cursor} if cursor else {})}
        page = (await memory.client.get(DOCUMENTS, params=asked)).json()
        contents |= {item["id"]: item["content"] for item in page["items"]}
        cursor = page["next_cursor"]
    embedded = await memory.embedded("new")
    assert set(embedded) == set(contents)
    for name, numbers in embedded.items():
        assert numbers is not None, name
        expected = vector(MODELS["new"], contents[name])
        assert max(abs(a - b) for a, b in zip(numbers, expected, strict=True)) < 1e-6, name
