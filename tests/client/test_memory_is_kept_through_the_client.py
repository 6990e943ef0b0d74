"""Memory through the client: a space, items one and many, and what is refused of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from app.client import AsyncCairn, ConflictError, NotFoundError
from app.http.service import Service


@pytest.fixture
async def cairn(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncCairn]:
    """The client of a service in this process."""
    within = partial(httpx.AsyncClient, transport=httpx.ASGITransport(app=service))
    monkeypatch.setattr("app.client.clients.httpx.AsyncClient", within)
    async with AsyncCairn("http://cairn.test", key=client.headers["authorization"].partition(" ")[2]) as made:
        yield made


async def test_spaces_and_items(cairn: AsyncCairn) -> None:
    space = await cairn.memory_spaces.put("a", model="m", dimensions=3)
    assert (space.active, space.dimensions, space.metric) == (True, 3, "cosine")
    made = await cairn.memory_records.create(content="x", metadata={"a": 1}, embedding=[0.1, 2.0, 3.0])
    assert (made.embedded, made.metadata) == (True, {"a": 1})
    shown = await cairn.memory_records.get(made.id, include=["embedding"])
    assert [float(number) for number in shown.embedding or []] == [0.1, 2.0, 3.0]
    many = await cairn.memory_documents.create_many([{"id": "d", "content": "y"}, {"content": "z", "embedding": [1.0]}])
    assert [item.status for item in many] == [201, 422]
    assert many[1].code == "invalid_input"
    changed = await cairn.memory_documents.patch("d", session_id="s")
    assert changed.session_id == "s"
    assert [item.id async for item in cairn.memory_documents.list(session_id="s", metadata={})] == ["d"]
    await cairn.memory_spaces.put("b", model="n", dimensions=2)
    with pytest.raises(ConflictError) as refused:
        await cairn.memory_spaces.activate("b")
    assert refused.value.code == "memory_space_incomplete"
    assert (await cairn.memory_spaces.activate("b", allow_incomplete=True)).active
    await cairn.memory_spaces.delete("a")
    assert [space.name async for space in cairn.memory_spaces.list()] == ["b"]
    await cairn.memory_documents.delete("d")
    with pytest.raises(NotFoundError):
        await cairn.memory_documents.get("d")
