"""`cairn migrate`, `keys`, `doctor` and every command's help, run inside the test's process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from app.bus.hints import Key
from app.bus.nats import NatsHints
from app.commands.root import app
from app.db.migrate import config
from app.db.revision import revisions
from app.embedded import Servers
from app.memory.partitions import index_name, index_sql
from app.settings import SigningSettings
from app.signing import signer_of
from app.tenants.keys import digest, key_of
from tests.conftest import database_url, new_tenant, running, settings_for
from tests.memory.embedding_server import embedding_server, refusing
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
ALEMBIC = ROOT / "alembic" / "versions"
COMMANDS = (
    "dev", "serve", "worker", "migrate", "keys create", "keys list", "keys revoke", "keys signing", "doctor",
    "openapi", "settings", "database", "database dump", "database restore", "database digest",
    "tenants", "tenants delete", "tenants cancel", "tenants verify-receipt",
    "backup", "backup create", "backup list", "backup download", "backup verify", "backup restore",
    "import lucky", "import trajectory", "show", "keys", "import", "demo", "runs", "versions", "demo evolve",
    "runs progress", "versions tree", "webhooks", "webhooks new-key",
    "webhooks listen", "events", "events follow",
)  # fmt: skip
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


class Cairn:
    """The command line on one database, with settings (`http__port`) and other variables (`COLUMNS`)."""

    def __init__(self, url: str, **settings: str) -> None:
        self.environment = {"CAIRN_DATABASE__URL": url, "COLUMNS": "160"}
        self.environment |= {
            name if name.isupper() else f"CAIRN_{name.upper()}": value for name, value in settings.items()
        }

    def run(self, *arguments: str) -> Result:
        """Carry a command out."""
        return CliRunner().invoke(app, arguments, env=self.environment)

    def does(self, *arguments: str) -> str:
        """What a command says that succeeds."""
        ended = self.run(*arguments)
        assert ended.exit_code == 0, ended.output
        return ended.output

    def refuses(self, *arguments: str) -> str:
        """The one sentence with which a command ends."""
        ended = self.run(*arguments)
        assert ended.exit_code == 1, ended.output
        assert len(ended.output.strip().splitlines()) == 1, ended.output
        return ended.output


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a .env file."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def empty(servers: Servers) -> str:
    """A database without a schema."""
    name = f"empty_{time.monotonic_ns()}"
    asyncio.run(do(database_url(servers, "postgres"), f"CREATE DATABASE {name}"))
    return database_url(servers, name)


@pytest.fixture
def migrated(clone: Callable[[], Awaitable[str]]) -> str:
    """A database with the schema."""

    async def cloned() -> str:
        return await clone()

    return asyncio.run(cloned())


async def do(url: str, sql: str) -> list[asyncpg.Record]:
    """Runs SQL on a database."""
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    told = Cairn(NOWHERE).does(*name.split(), "--help")
    assert "Example: " in told
    assert f"cairn {name.split(maxsplit=1)[0]}" in told


def test_help_breaks_its_lines_where_the_terminal_ends() -> None:
    told = Cairn(NOWHERE, COLUMNS="80").does("import", "lucky", "--help")
    assert "row that is there already with other content is refused" in told


def test_ctrl_c_while_options_are_still_being_read_is_quiet() -> None:
    early = """if True:
        import os, signal, sys, typer.main
        read = typer.main.get_command
        typer.main.get_command = lambda app: os.kill(os.getpid(), signal.SIGINT) or read(app)
        from app.cli import main
        sys.argv = ["cairn", "backup", "list"]
        main()
    """
    ended = subprocess.run([sys.executable, "-c", early], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_where_nothing_is_unicode_commands_speak_ascii_and_the_document_is_whole() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "app.cli", *arguments]
        ended = subprocess.run(command, env={**os.environ, **ascii_only}, capture_output=True, timeout=60, check=True)
        return ended.stdout.decode("ascii")

    assert "Example: cairn import lucky" in said("import", "lucky", "--help")
    assert json.loads(said("openapi")) == json.loads(Cairn(NOWHERE).does("openapi"))


def test_the_revisions_read_from_the_files_are_alembic_s_own() -> None:
    assert revisions()[-1] == ScriptDirectory.from_config(config()).get_current_head()
    assert len(revisions()) == len(list(ALEMBIC.glob("*.py")))


def test_migrate_brings_an_empty_database_to_the_schema_and_then_has_nothing_to_do(empty: str) -> None:
    cairn = Cairn(empty)
    assert "no schema yet" in cairn.refuses("migrate", "--check")
    assert f"from nothing to {revisions()[-1]}" in cairn.does("migrate")
    assert "as needed" in cairn.does("migrate", "--check")
    assert "Nothing to do" in cairn.does("migrate")


def test_a_database_that_is_away_is_one_sentence() -> None:
    database = (("database", "digest"), ("database", "dump", "made"))
    for arguments in (("migrate",), ("keys", "list"), ("worker",), ("serve", "--port", "0"), *database):
        assert "correct CAIRN_DATABASE__URL" in Cairn(NOWHERE).refuses(*arguments)


@pytest.mark.parametrize("url", ["localhost:5432/cairn", "mysql://cairn@127.0.0.1/cairn", "postgresql://u:p#w@h/cairn"])
def test_a_database_url_that_cannot_be_read_is_not_told_as_a_server_that_is_away(url: str) -> None:
    told = "CAIRN_DATABASE__URL is no PostgreSQL URL; write postgresql://user:password@host:port/name."
    for arguments in (("migrate",), ("keys", "list"), ("serve", "--port", "0")):
        assert Cairn(url).refuses(*arguments) == told + "\n"
    assert re.search(rf"PostgreSQL +wrong +{told}", Cairn(url).run("doctor").output)


@pytest.mark.parametrize(
    ("url", "told"), [(NOWHERE, "PostgreSQL does not answer ("), ("nowhere", "CAIRN_DATABASE__URL is")]
)
def test_alembic_tells_a_database_that_is_away_in_one_line(url: str, told: str) -> None:
    environment = {**os.environ, "CAIRN_DATABASE__URL": url}
    command = [sys.executable, "-m", "alembic", "upgrade", "head"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(told)
    assert len(ended.stderr.splitlines()) == 1


def test_the_short_scheme_of_other_tools_will_do(migrated: str) -> None:
    assert "Nothing to do" in Cairn(migrated.replace("postgresql://", "postgres://")).does("migrate")


def test_a_setting_out_of_its_bounds_is_named() -> None:
    assert "CAIRN_HTTP__GRACE_SECONDS" in Cairn(NOWHERE, http__grace_seconds="0").refuses("serve")


def test_serve_does_not_start_where_uploads_could_not_be_received(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = Cairn(NOWHERE, http__uploads_folder=str(tmp_path / "file" / "uploads")).refuses("serve")
    assert told.startswith(f"Uploads cannot wait in {tmp_path}/file/uploads (Not a directory)")
    assert "CAIRN_HTTP__UPLOADS_FOLDER" in told


def test_doctor_tells_whether_uploads_have_room(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    closed = Cairn(NOWHERE, http__uploads_folder=str(tmp_path / "file" / "uploads")).run("doctor")
    assert re.search(rf"uploads +wrong +{tmp_path}/file is closed .*CAIRN_HTTP__UPLOADS_FOLDER", closed.output)
    open_ = Cairn(NOWHERE, http__uploads_folder=str(tmp_path / "new"), http__upload_bytes_max="1024").run("doctor")
    assert re.search(rf"uploads +ok .*free at {tmp_path}\.", open_.output)
    assert not (tmp_path / "new").exists()


def test_keys_are_made_listed_and_revoked_on_the_database(migrated: str) -> None:
    cairn = Cairn(migrated)
    assert "add --create-tenant" in cairn.refuses("keys", "create", "--tenant", "acme")
    assert "is no scope" in cairn.refuses("keys", "create", "--scope", "everything")
    assert "is no tenant id" in cairn.refuses("keys", "create", "--tenant", "A b")
    made = cairn.run("keys", "create", "--tenant", "acme", "--create-tenant", "--name", "w", "--scope", "*:read")
    key, key_id = made.stdout.strip(), re.search(r"key_\w+", made.stderr)
    assert key_id is not None
    stored = asyncio.run(do(migrated, "SELECT id, key_hash, scopes FROM api_keys"))
    assert [(row["id"], row["key_hash"], row["scopes"]) for row in stored] == [(key_id[0], digest(key), ["*:read"])]
    listed = cairn.does("keys", "list")
    assert key_id[0] in listed
    assert key not in listed
    narrow = Cairn(migrated, COLUMNS="80", FORCE_COLOR="1", TERM="dumb").does("keys", "list")
    assert f"{key_id[0]}  active\n" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert "at most: No NATS is configured" in cairn.does("keys", "revoke", key_id[0], "--tenant", "acme")
    assert "revoked" in cairn.does("keys", "list", "--tenant", "acme")
    assert "no such key" in cairn.refuses("keys", "revoke", "key_x")


async def test_a_revocation_on_the_database_is_heard_by_every_process(
    clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    at = {"nats__url": servers.nats_url, "nats__subject_prefix": "revoked"}
    cairn, away = Cairn(url := await clone(), **at), Cairn(url, nats__url="nats://127.0.0.1:1")
    key_ids = [
        re.findall(r"key_\w+", (await asyncio.to_thread(cairn.run, "keys", "create", "--create-tenant")).stderr)[0]
        for _ in range(2)
    ]
    heard: list[Key | None] = []
    other = NatsHints(servers.nats_url, "revoked")
    other.listen(heard.append)
    await other.open()
    try:
        assert "has been told" in await asyncio.to_thread(cairn.does, "keys", "revoke", key_ids[0])

        async def is_heard() -> bool:
            return heard == [key_of("default")]

        await eventually(is_heard, "the hint")
        assert "at most: NATS does not answer" in await asyncio.to_thread(away.does, "keys", "revoke", key_ids[1])
    finally:
        await other.close()


def test_doctor_finds_what_is_wrong_and_what_to_do(migrated: str, empty: str, servers: Servers) -> None:
    parts = {"redis__url": servers.redis_url, "nats__url": servers.nats_url}
    streams = {"nats__stream_prefix": "doctor-of-none"}
    well = Cairn(migrated, **parts).does("doctor")
    assert re.search(r"NATS +ok", well)
    assert re.search(r"embedder +ok +Not configured \(CAIRN_EMBEDDER__URL\)", well)
    assert "wrong" not in well
    assert re.search(
        r"stream webhook.queued +note .*makes it when it starts", Cairn(migrated, **parts, **streams).does("doctor")
    )
    behind = Cairn(empty).run("doctor")
    assert behind.exit_code == 1
    assert re.search(r"schema +wrong +The database has no schema yet.*cairn migrate", behind.output)
    asyncio.run(do(migrated, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_outbox_number'::regclass"))
    ill = Cairn(migrated, database__session_settings="false", nats__url="nats://127.0.0.1:1").run("doctor")
    assert ill.exit_code == 1
    assert re.search(r"indexes +wrong .*ix_outbox_number", ill.output)
    assert re.search(r"time-outs +wrong .*statement_timeout", ill.output)
    assert re.search(r"NATS +wrong .*CAIRN_NATS__URL", ill.output)
    away = Cairn(NOWHERE).run("doctor")
    assert away.exit_code == 1
    assert re.search(r"PostgreSQL +wrong .*CAIRN_DATABASE__URL", away.output)


def test_a_signing_key_is_one_that_the_service_takes(empty: str) -> None:
    ended = Cairn(empty).run("keys", "signing")

    assert ended.exit_code == 0
    seed = ended.stdout.strip()
    signer = signer_of(SigningSettings(key=SecretStr(seed)))
    assert signer is not None
    assert signer.public_key in ended.stderr


async def test_doctor_sees_a_space_that_is_searched_without_its_index(clone: Callable[[], Awaitable[str]]) -> None:
    cairn = Cairn(url := await clone(), memory__index_rows_min="2", memory__exact_rows_max="2")
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        await client.put("/v1/memory/spaces/words", json={"model": "words-2", "dimensions": 2})
        item = {"content": "x", "embedding": [1, 0]}
        for n in range(3):
            if n == 2:
                assert re.search(r"memory +ok", await asyncio.to_thread(cairn.does, "doctor"))
            assert (await client.post("/v1/memory/records", json=item | {"id": f"r{n}"})).status_code == 201
        told = r"memory +note +No whole index: words \(tenant \w+\); each search there compares 3 vectors or more"
        assert re.search(told, await asyncio.to_thread(cairn.does, "doctor"))
        number = (await do(url, "SELECT number FROM memory_spaces"))[0]["number"]
        await do(url, index_sql(number, 2, "cosine"))
        assert re.search(r"memory +ok", await asyncio.to_thread(cairn.does, "doctor"))
        broken = f"'{index_name(number)}'::regclass"
        await do(url, f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {broken}")
        assert re.search(told, await asyncio.to_thread(cairn.does, "doctor"))


async def test_doctor_asks_the_embedding_service_for_one_word_by_each_model(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    async with embedding_server() as server:
        cairn = Cairn(url, embedder__url=server.url, embedder__api_key="sk-secret")
        assert re.search(r"embedder +note .*no space names a model yet", await asyncio.to_thread(cairn.does, "doctor"))
        async with running(settings_for(url)) as service, await new_tenant(service) as client:
            await client.put("/v1/memory/spaces/words", json={"model": "words-8", "dimensions": 8})
        assert server.asked == []
        told = rf"embedder +ok +{server.url} answers 8 numbers by words-8\."
        assert re.search(told, await asyncio.to_thread(cairn.does, "doctor"))
        assert (server.texts, server.keys) == (["text"], ["Bearer sk-secret"])
        server.always = refusing(401)
        refused = await asyncio.to_thread(cairn.run, "doctor")
        assert (refused.exit_code, "sk-secret" in refused.output) == (1, False)
        assert re.search(r"embedder +wrong +words-8 at .*answers 401", refused.output)
        server.always, server.spoil = None, lambda _text, row: row["embedding"].pop()
        wrong_size = (await asyncio.to_thread(cairn.run, "doctor")).output
        assert re.search(r"embedder +wrong .*gave 7 numbers", wrong_size)
    away = (await asyncio.to_thread(cairn.run, "doctor")).output
    assert re.search(r"embedder +wrong .*cannot be reached", away)
    # Nothing fails by a space that is only written to.
    await do(url, "UPDATE memory_spaces SET active = false, filling = true")
    only_written = await asyncio.to_thread(cairn.does, "doctor")
    assert re.search(r"embedder +note +words-8 at .*cannot be reached", only_written)
