"""A database that holds something of every domain is dumped and restored with PostgreSQL's own programs."""

from __future__ import annotations

import asyncio
import re
import shutil
import stat
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from rich.console import Console

from app.background.runner import drain
from app.commands.comparing import Holding, holding
from app.commands.dumping import DumpRefused, dump, programs_for, restore, sum_file
from app.embedded import Servers
from app.events.jobs import sequencer
from app.http.service import Service
from tests.commands.test_the_operator_s_commands import Cairn
from tests.conftest import OBJECTS, WEBHOOK_KEY, database_url, http, new_tenant, running, settings_for
from tests.contract.script import arrange

NEAR = {"embedding": [1, 2, 3], "space": "space"}
# Rows whose restore could go wrong in ways of its own: json, jsonb, bytes, vectors, partitions, numbers given in order.
FILLED = {
    "messages", "memory_vectors", "events", "contents", "artifacts", "submissions", "documents", "versions", "webhooks",
}  # fmt: skip
# In the checksum of the last table's rows: five bytes that mark the end come after it.
LAST_BYTES = 8
Empty = Callable[[], str]


@dataclass(frozen=True)
class Drilled:
    """A database at rest, its dump, what it holds, and what a search in it gives to the one with the key."""

    url: str
    file: Path
    held: Holding
    key: str
    near: bytes


def told(step: str) -> None:
    """Says on a terminal how far the drill is: `make drill` shows it."""
    lines = "\n".join(f"  {line.rstrip()}" for line in step.splitlines())
    Console(stderr=True).print(f"\n{lines}", style="dim", highlight=False, soft_wrap=True)


def sql(url: str, *statements: str) -> Any:
    """Carries statements out and gives the first value of the last."""

    async def carried_out() -> Any:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(carried_out())


async def searched(service: Service, key: str) -> bytes:
    """What is near in memory, as it is answered."""
    async with http(service, authorization=key) as client:
        answer = await client.post("/v1/memory/search", json=NEAR)
        assert answer.status_code == 200, answer.text
        return answer.content


@pytest.fixture(scope="module")
def drilled(
    servers: Servers, kept_clone: Callable[[], Awaitable[str]], tmp_path_factory: pytest.TempPathFactory
) -> Drilled:
    """Fills a database, and dumps it once for all tests."""

    async def filled() -> tuple[str, str, bytes]:
        url = await kept_clone()
        async with running(settings_for(url)) as service, await new_tenant(service) as client:
            await arrange(client, client.headers["x-test-tenant"], url)
            await drain(sequencer(lambda _waited: None), service.ground.database)
            key = client.headers["authorization"]
            near = await searched(service, key)
        return url, key, near

    url, key, near = asyncio.run(filled())
    held = asyncio.run(holding(url))
    told(f"{len(held.rows)} tables with {sum(rows for rows, _ in held.rows.values())} rows are filled")
    file = tmp_path_factory.mktemp("dumps") / "cairn.dump"
    size = dump(url, file)
    told(f"dumped: {size} bytes")
    return Drilled(url, file, held, key, near)


@pytest.fixture
def empty(servers: Servers) -> Iterator[Empty]:
    """Makes empty databases, without pgvector, for this test alone."""
    made: list[str] = []

    def make_empty() -> str:
        made.append(f"empty_{uuid.uuid4().hex}")
        sql(database_url(servers, "postgres"), f"CREATE DATABASE {made[-1]} TEMPLATE template0")
        return database_url(servers, made[-1])

    yield make_empty
    for name in made:
        sql(database_url(servers, "postgres"), f"DROP DATABASE {name} WITH (FORCE)")


def require_equal(found: Holding, held: Holding) -> None:
    """Table by table, so that a difference is read at once."""
    assert found.rows == held.rows
    assert found.sequences == held.sequences
    assert found.shape == held.shape


def tables_of(url: str) -> int:
    """How many tables there are."""
    return int(sql(url, "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"))


def test_b38_a_dump_restores_into_an_empty_database_and_everything_is_as_it_was(drilled: Drilled, empty: Empty) -> None:
    url = empty()
    restore(url, drilled.file)
    told("restored into an empty database")
    require_equal(asyncio.run(holding(url)), drilled.held)
    told("every table's digest, the sequences, constraints and indexes are equal")
    doctor = Cairn(url, webhooks__encryption_keys=WEBHOOK_KEY, blobs__folder=str(OBJECTS / url.rsplit("/", 1)[1]))
    found = doctor.does("doctor")
    assert re.search(r"PostgreSQL +ok +18\.[1-9]", found)
    told(f"cairn doctor is green:\n{found}")

    async def served() -> None:
        async with running(settings_for(url)) as service, http(service, authorization=drilled.key) as client:
            assert await searched(service, drilled.key) == drilled.near
            assert (await client.post("/v1/workflows", json={"name": "the first after"})).status_code == 201
            said = {"id": "after", "role": "r", "payload": 1}
            assert (await client.post("/v1/invocations/i/messages", json=said)).status_code == 201
            item = {"content": "after", "embedding": [3, 2, 1]}
            assert (await client.post("/v1/memory/documents", json=item)).status_code in (200, 201)

    asyncio.run(served())
    told("a search of vectors gives the same, and the first writes succeed")


def test_b38_the_drill_is_over_a_database_that_holds_something_of_nearly_everything(drilled: Drilled) -> None:
    empty = {name for name, (rows, _) in drilled.held.rows.items() if not rows}
    assert drilled.held.rows.keys() >= FILLED
    assert not FILLED & empty
    assert len(empty) < len(drilled.held.rows) / 5, empty


def test_b38_pgvector_may_lie_in_another_schema_before(drilled: Drilled, empty: Empty) -> None:
    url = empty()
    sql(url, "CREATE SCHEMA elsewhere", "CREATE EXTENSION vector SCHEMA elsewhere")
    restore(url, drilled.file)
    require_equal(asyncio.run(holding(url)), drilled.held)
    assert sql(url, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'") == "public"
    told("restored where pgvector was in another schema")


def test_b38_a_dump_of_a_database_with_pgvector_in_another_schema_says_what_the_new_one_needs(
    drilled: Drilled, empty: Empty, tmp_path: Path
) -> None:
    source, url, file = empty(), empty(), tmp_path / "elsewhere.dump"
    restore(source, drilled.file)
    sql(source, "CREATE SCHEMA elsewhere", "ALTER EXTENSION vector SET SCHEMA elsewhere")
    dump(source, file)
    with pytest.raises(DumpRefused, match="All is restored, but pgvector lies in the schema elsewhere"):
        restore(url, file)
    require_equal(asyncio.run(holding(url)), drilled.held)
    assert "which this role's search_path does not have" in Cairn(url).run("doctor").output
    name = url.rsplit("/", 1)[1]
    sql(url, f"ALTER DATABASE {name} SET search_path = public, elsewhere")
    assert "which this role's search_path does not have" not in Cairn(url).run("doctor").output


def test_b38_a_second_restore_is_refused_and_the_first_stays(drilled: Drilled, empty: Empty) -> None:
    url = empty()
    restore(url, drilled.file)
    with pytest.raises(DumpRefused, match="not empty"):
        restore(url, drilled.file)
    require_equal(asyncio.run(holding(url)), drilled.held)


@pytest.mark.parametrize("with_sum", [True, False])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_b38_a_damaged_last_block_restores_nothing(
    drilled: Drilled, empty: Empty, tmp_path: Path, damage: str, with_sum: bool
) -> None:
    """With the digest nothing is begun; without it, pg_restore itself fails and its transaction leaves nothing."""
    url, file = empty(), tmp_path / "cairn.dump"
    sql(url, "CREATE SCHEMA elsewhere", "CREATE EXTENSION vector SCHEMA elsewhere")
    written = bytearray(drilled.file.read_bytes())
    last = len(written) - LAST_BYTES
    if damage == "cut":
        del written[last:]
    else:
        written[last] ^= 0x40
    file.write_bytes(written)
    if with_sum:
        shutil.copy(sum_file(drilled.file), sum_file(file))
    why = "not as it was written" if with_sum else "pg_restore ended with status 1"
    with pytest.raises(DumpRefused, match=rf"{why}.*Nothing was restored\.$"):
        restore(url, file)
    assert tables_of(url) == 0
    assert sql(url, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'") == "elsewhere"
    told(f"a {damage} block is found {'by its digest' if with_sum else 'by pg_restore'}, and nothing is restored")


def test_b38_a_client_that_is_older_than_the_server_is_refused(drilled: Drilled, tmp_path: Path) -> None:
    old = programs(tmp_path / "old", 'echo "pg_dump (PostgreSQL) 17.9"')
    file = tmp_path / "cairn.dump"
    with pytest.raises(DumpRefused, match="is 17 and the server is 18: install postgresql-client-18"):
        dump(drilled.url, file, old)
    assert not file.exists()


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("printf PGDMP > $3; echo 'disk is full' >&2; exit 1", "pg_dump ended with status 1: disk is full"),
        ("exit 0", "wrote 0 bytes"),
        (": > $3", "wrote 0 bytes"),
        ("printf PGDMP > $3", "pg_restore ended with status 1"),
    ],
)
def test_b38_a_dump_that_failed_leaves_no_file(drilled: Drilled, tmp_path: Path, does: str, why: str) -> None:
    failing = programs(tmp_path / "bin", f'[ "$1" = --version ] && echo "pg_dump (PostgreSQL) 18.0" && exit; {does}')
    shutil.copymode(real_programs() / "pg_restore", failing / "pg_restore")
    (failing / "pg_restore").write_text(f'#!/bin/sh\nexec "{real_programs()}/pg_restore" "$@"\n')
    made = tmp_path / "made"
    made.mkdir()
    with pytest.raises(DumpRefused, match=why):
        dump(drilled.url, made / "cairn.dump", failing)
    assert list(made.iterdir()) == []


def test_b38_commands_dump_restore_and_compare(drilled: Drilled, empty: Empty, tmp_path: Path) -> None:
    url, file = empty(), tmp_path / "by-hand.dump"
    assert "its SHA-256 is in" in Cairn(drilled.url).does("database", "dump", str(file))
    assert "is there already" in Cairn(drilled.url).refuses("database", "dump", str(file))
    Cairn(url).does("database", "restore", str(file))
    assert Cairn(url).does("database", "digest") == Cairn(drilled.url).does("database", "digest")
    sql(url, "UPDATE workflows SET name = 'another'")
    assert Cairn(url).does("database", "digest") != Cairn(drilled.url).does("database", "digest")


def real_programs() -> Path:
    """The folder of the programs that are used unless others are named."""
    return programs_for(18)


def programs(folder: Path, script: str) -> Path:
    """A folder with a pg_dump and a pg_restore that do as the script says."""
    folder.mkdir()
    for name in ("pg_dump", "pg_restore"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    return folder
