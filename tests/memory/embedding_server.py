"""An embedding service like OpenAI's on loopback: texts with words in common lie near each other; it fails as told.

`python -m tests.memory.embedding_server 8901` runs it for a demonstration.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PLACES_OF_A_WORD = 6

Asked = dict[str, Any]
Fault = Callable[["EmbeddingServer", Asked], Awaitable[web.StreamResponse | None]]
"""What happens to a request instead; None lets it be answered."""


def dimensions_of(model: str) -> int:
    """A model's name ends in its dimensions, `words-16`; else it has 8."""
    found = re.search(r"-([0-9]{1,4})$", model)
    return int(found[1]) if found else 8


def vector(model: str, text: str, dimensions: int | None = None) -> list[float]:
    """The embedding of a text by a model, of length 1; the same in every process."""
    size = dimensions or dimensions_of(model)
    numbers = [0.0] * size
    for word in re.findall(r"\w+", text.lower()) or [text]:
        digest = hashlib.sha256(f"{model}\n{word}".encode()).digest()
        for place in range(PLACES_OF_A_WORD):
            where = int.from_bytes(digest[4 * place : 4 * place + 3]) % size
            numbers[where] += 1.0 if digest[4 * place + 3] % 2 else -1.0
    # Words may cancel each other out; nothing is embedded as nothing.
    numbers[hashlib.sha256(f"{model}\n{text}".encode()).digest()[0] % size] += 0.01
    length = math.sqrt(sum(number * number for number in numbers))
    return [number / length for number in numbers]


@dataclass
class EmbeddingServer:
    """Where it listens, what it was asked, and what goes wrong: `always`, else the next of `faults`, else nothing."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    # Rows of the answer, by index, are what this makes of them.
    spoil: Callable[[str, dict[str, Any]], object] | None = None
    under_way: int = 0
    most_under_way: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What CAIRN_EMBEDDER__URL is set to."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text that it was asked for, in order."""
        return [text for asked in self.asked for text in asked["input"]]

    async def start(self) -> None:
        """Listen: on a free port at first, on the same one later."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/embeddings", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be down: connections are refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked: Asked = await request.json()
        self.asked.append(asked)
        self.keys.append(request.headers.get("authorization"))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            fault = self.always or (self.faults.pop(0) if self.faults else None)
            answer = None if fault is None else await fault(self, asked | {"request": request})
            return web.json_response(text=json.dumps(self.embedded(asked))) if answer is None else answer
        finally:
            self.under_way -= 1

    def embedded(self, asked: Asked) -> dict[str, Any]:
        """The answer to a request."""
        model, texts = asked["model"], asked["input"]
        rows = [
            {"object": "embedding", "index": index, "embedding": vector(model, text, asked.get("dimensions"))}
            for index, text in enumerate(texts)
        ]
        if self.spoil is not None:
            for row, text in zip(rows, texts, strict=True):
                self.spoil(text, row)
        # The order of the answer says nothing; `index` does.
        return {"object": "list", "data": rows[::-1], "model": model, "usage": {"prompt_tokens": 0, "total_tokens": 0}}


def refusing(status: int, message: str = "No.", **headers: str) -> Fault:
    """Answers with a status; the names of headers are written with `_` for `-`."""

    async def fault(_server: EmbeddingServer, _asked: Asked) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({"error": {"message": message}}, status=status, headers=named)

    return fault


def refusing_texts(with_word: str, status: int = 400) -> Fault:
    """Answers with a status where one of the texts has this word in it."""

    async def fault(_server: EmbeddingServer, asked: Asked) -> web.StreamResponse | None:
        if any(with_word in text for text in asked["input"]):
            return web.json_response({"error": {"message": "A text is too long."}}, status=status)
        return None

    return fault


async def hanging(_server: EmbeddingServer, _asked: Asked) -> web.StreamResponse:
    """Answers nothing for as long as it is asked."""
    return await asyncio.get_running_loop().create_future()


def waiting_for(gate: asyncio.Event) -> Fault:
    """Answers once that is set."""

    async def fault(_server: EmbeddingServer, _asked: Asked) -> None:
        await gate.wait()

    return fault


async def cut(server: EmbeddingServer, asked: Asked) -> web.StreamResponse:
    """Breaks off in the middle of its answer."""
    body = json.dumps(server.embedded({"model": asked["model"], "input": asked["input"]})).encode()
    answer = web.StreamResponse(headers={"content-length": str(len(body)), "content-type": "application/json"})
    await answer.prepare(asked["request"])
    await answer.write(body[: len(body) // 2])
    transport = asked["request"].transport
    if transport is not None:
        transport.abort()
    return answer


def saying(body: str) -> Fault:
    """Answers 200 with this body."""

    async def fault(_server: EmbeddingServer, _asked: Asked) -> web.StreamResponse:
        return web.Response(text=body, content_type="application/json")

    return fault


def spoiling(with_word: str, embedding: object) -> Callable[[str, dict[str, Any]], None]:
    """Gives texts with this word something else as their embedding."""

    def spoil(text: str, row: dict[str, Any]) -> None:
        if with_word in text:
            row["embedding"] = embedding

    return spoil


@asynccontextmanager
async def embedding_server(*faults: Fault) -> AsyncIterator[EmbeddingServer]:
    """One that runs for as long as the block does."""
    server = EmbeddingServer(faults=list(faults))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def run(arguments: Sequence[str]) -> None:
    """Run one on the port that is named, until it is interrupted."""
    server = EmbeddingServer(port=int(arguments[0]) if arguments else 0)
    await server.start()
    print(server.url, flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1:]))
