"""Redis and NATS that are there and of no use: the service serves, and says once what is wrong and what to do."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from app.embedded.binaries import find_nats, find_valkey
from app.embedded.process import HOST, Process, Step, free_port, port_is_free
from tests.api_process import Command, serving
from tests.faults.living import DELIVERING, Living, Seen, everything_arrives, living
from tests.waiting import eventually, until
from tests.webhooks.receiving import receiving

JETSTREAM = 'jetstream { store_dir: "." }\n'
USERS = 'authorization { user: "cairn", password: "of-nats" }\n'


class Wrong(NamedTuple):
    """What is wrong: the part, its options or its configuration, who asks, and what is said of it."""

    part: str
    given: str
    user: str
    says: str


MISTAKES = {
    "a wrong password of Redis": Wrong("redis", "--requirepass of-redis", ":wrong@", "refuses the user or password"),
    "a replica": Wrong("redis", "--replicaof 127.0.0.1 1", "", "is a read-only replica"),
    "a full Redis": Wrong("redis", "--maxmemory 1kb --maxmemory-policy noeviction", "", "is full and evicts nothing"),
    "no JetStream": Wrong("nats", "", "", "has no JetStream"),
    "a wrong password of NATS": Wrong("nats", JETSTREAM + USERS, "cairn:wrong@", "refuses the user or password"),
    "no room in NATS": Wrong("nats", 'jetstream { store_dir: ".", max_file_store: 1MB }', "", "NATS has no room"),
}


@contextmanager
def server(wrong: Wrong, folder: Path) -> Iterator[str]:
    """The URL of such a server."""
    port, work = free_port(), folder / "work"
    work.mkdir()
    if wrong.part == "nats":
        Path(work, "nats.conf").write_text(f'host: "{HOST}"\nport: {port}\n{wrong.given}', encoding="utf-8")
        argv = [find_nats(), "--config", "nats.conf"]
    else:
        argv = [find_valkey(), "--bind", HOST, "--port", str(port), "--save", "", *wrong.given.split()]
    process = Process(wrong.part, argv, work=work, port=port, steps=(Step(signal.SIGKILL, 10),))
    try:
        until(lambda: not port_is_free(port), "the server")
        yield f"{wrong.part}://{wrong.user}{HOST}:{port}"
    finally:
        process.stop()


async def serves(tenant: Living, seen: Seen) -> None:
    """It does everything, again and again."""
    for _ in range(5):
        await tenant.rounds(2)
        await seen.ready()


def warnings(said: str, words: str) -> dict[str, int]:
    """How often each warning was written that has these words."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    found: dict[str, int] = {}
    for line in lines:
        if words in line.get("error", ""):
            found[line["message"]] = found.get(line["message"], 0) + 1
    return found


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_it_serves_and_says_once_what_is_wrong_with(
    mistake: str, clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    wrong, database = MISTAKES[mistake], await clone()
    with server(wrong, tmp_path) as url:
        settings = {f"{wrong.part}__url": url}
        async with receiving() as receiver:
            with serving(database, **DELIVERING, **settings) as process:
                async with living(process, receiver.url) as (tenant, seen):
                    await eventually(lambda: seen.without(wrong.part), "that it is of no use")
                    detail = (await seen.ready())["components"][wrong.part]["detail"]
                    assert wrong.says in detail
                    await serves(tenant, seen)
                    await everything_arrives(tenant, receiver)
                    assert (
                        f'cairn_degraded{{part="{"redis" if wrong.part == "redis" else "streams"}"}} 1.0'
                        in (await seen.client.get("/metrics")).text
                    )
                said = process.output()
        assert set(warnings(said, wrong.says).values()) == {1}, said
        assert "Traceback" not in said
        assert ":wrong" not in said
        if mistake != "no room in NATS":
            # Which server has room for a stream is known to whoever declares it, and the doctor declares nothing.
            assert wrong.says in doctor(database, **settings)


async def test_it_serves_though_no_name_is_known(clone: Callable[[], Awaitable[str]]) -> None:
    database = await clone()
    settings = {
        "redis__url": "redis://:secret@redis.invalid:6379/0", "nats__url": "nats://cairn:secret@nats.invalid:4222",
    }  # fmt: skip
    async with receiving() as receiver:
        with serving(database, **DELIVERING, **settings) as process:
            async with living(process, receiver.url) as (tenant, seen):
                assert await seen.without("redis", "nats")
                await serves(tenant, seen)
                await everything_arrives(tenant, receiver)
            said = process.output()
    assert warnings(said, "Redis does not answer") == {
        "no Redis; nothing is cached, and rate limits hold for each process alone": 1,
    }
    assert set(warnings(said, "NATS does not answer").values()) == {1}
    examined = doctor(database, **settings)
    for text in (said, examined):
        assert "secret" not in text
        assert "Traceback" not in text
    for name in ("REDIS", "NATS"):
        assert f"CAIRN_{name}__URL" in examined


def doctor(database_url: str, **settings: str) -> str:
    """What `cairn doctor` says, which finds something wrong."""
    command = Command("doctor", url=database_url, **settings)
    try:
        assert command.wait() == 1
        return " ".join(command.output().split())
    finally:
        command.close()
