"""`cairn import lucky`: everything or nothing, and twice as once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from app.commands.root import app
from app.db.sql import Statement
from app.http.service import Service
from app.imports.lucky import TABLES
from tests.conftest import new_tenant
from tests.digests import digests
from tests.lucky.conftest import Importer
from tests.lucky.generator import Columns, Dump
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.mark.parametrize("columns", ["old", "new"])
async def test_every_row_is_new_then_there_already_or_left_out_with_its_reason(
    importer: Importer, tmp_path: Path, columns: Columns
) -> None:
    dump = Dump(1, columns)
    folder = dump.write(tmp_path / "dump")
    rehearsed = await importer.run(folder, rehearse=True)
    assert not any(int(told.split(" ")[0]) for name, told in (await importer.digests()).items() if name == "versions")
    first = await importer.run(folder)
    stored = await importer.digests()
    second = await importer.run(folder)
    assert await importer.digests() == stored
    for report in (rehearsed, first, second):
        assert {part.source for part in report.tables} == {name for name, rows in dump.rows.items() if rows}
        for part in report.tables:
            assert part.read == len(dump.rows[part.source])
            assert part.read == part.new + part.already_there + part.left_out.total(), part
    assert second.new == 0
    assert rehearsed.new == first.new == sum(part.already_there for part in second.tables)
    for mapping in TABLES:
        assert first.of(mapping.source).new == len(dump.rows[mapping.source]) > 0


async def test_every_table_that_was_written_is_known_to_the_planner(fresh: Service, tmp_path: Path) -> None:
    async with await new_tenant(fresh) as client:
        importer, dump = Importer(fresh.ground.database, client), Dump(5, "new")
        dump.row("WorkflowVersion")["all_workflow_io"] = {"cases": []}
        before = await importer.digests()
        await importer.run(dump.write(tmp_path / "dump"))
        after = await importer.digests()
    written = {name for name, told in after.items() if told != before[name]}
    assert {"generation_members", "version_io", "mcp_config_sets"} < written
    never = await fresh.ground.database.rows(
        Statement("SELECT relname FROM pg_class WHERE relname = ANY (CAST(:names AS text[])) AND reltuples < 0"),
        names=sorted(written),
    )
    assert [row["relname"] for row in never] == []


async def test_a_file_that_is_added_later_adds_its_rows_alone(importer: Importer, tmp_path: Path) -> None:
    dump = Dump(2)
    messages = dump.rows.pop("Message")
    await importer.run(dump.write(tmp_path / "dump"))
    dump.rows["Message"] = messages
    report = await importer.run(dump.write(tmp_path / "dump"))
    assert report.new == report.of("Message").new == len(messages)


async def test_a_row_that_is_there_with_other_content_is_named_and_nothing_is_stored(
    importer: Importer, tmp_path: Path
) -> None:
    dump = Dump(3)
    await importer.run(dump.write(tmp_path / "dump"))
    dump.row("WorkflowVersion", 4)["commit_message"] = "Another."
    dump.row("Message", 6)["payload"] = {"kind": "other"}
    dump.add("Workflow", wf_id="wf_more")
    problems = await importer.refuses(dump.write(tmp_path / "dump"))
    assert len(problems) == 1
    assert f"wf_version_id {dump.row('WorkflowVersion', 4)['wf_version_id']}: is there already" in problems[0]
    dump.rows["WorkflowVersion"] = []
    (tmp_path / "dump" / "WorkflowVersion.json").unlink(missing_ok=True)
    (tmp_path / "dump" / "WorkflowVersion.jsonl").unlink(missing_ok=True)
    problems = await importer.refuses(dump.write(tmp_path / "dump"))
    assert dump.row("Message", 6)["msg_id"] in problems[0]


async def test_a_row_that_was_changed_since_is_there_already_and_stays_as_it_is_now(
    importer: Importer, tmp_path: Path
) -> None:
    dump = Dump(3)
    folder = dump.write(tmp_path / "dump")
    await importer.run(folder)
    path = f"/v1/invocations/{dump.row('WorkflowInvocation')['wf_invocation_id']}"
    assert (await importer.client.patch(path, json={"feedback": "Seen since."})).status_code == 200
    assert (await importer.run(folder)).new == 0
    assert (await importer.get(path))["feedback"] == "Seen since."


async def test_a_version_whose_content_left_since_has_it_again(importer: Importer, tmp_path: Path) -> None:
    dump = Dump(3)
    dump.row("WorkflowVersion")["all_workflow_io"] = {"cases": []}
    folder = dump.write(tmp_path / "dump")
    await importer.run(folder)
    stored = await importer.digests()
    key = {"tenant": importer.tenant, "id": dump.row("WorkflowVersion")["wf_version_id"]}
    for sql in (
        "DELETE FROM version_io WHERE tenant_id = :tenant AND version_id = :id",
        "UPDATE versions SET dsl = NULL, pruned_at = now() WHERE tenant_id = :tenant AND id = :id",
    ):
        await importer.database.rows(Statement(sql), **key)
    report = await importer.run(folder)
    (note,) = [note for what, note in report.of("WorkflowVersion").notes.items() if "its content go" in what]
    assert (note.count, report.new) == (1, 0)
    assert await importer.digests() == stored


async def test_a_file_that_breaks_off_at_its_end_is_refused_there_and_nothing_is_stored(
    importer: Importer, tmp_path: Path
) -> None:
    dump = Dump(3)
    folder = dump.write(tmp_path / "dump")
    (path,) = folder.glob("Message.json*")
    lines = path.read_text().rstrip("]\n").splitlines()
    path.write_text("\n".join(lines)[:-20])
    (problem,) = await importer.refuses(folder)
    assert problem.startswith(f"{path.name}:{len(lines)}:")


async def test_references_that_lead_nowhere_are_named_by_row(importer: Importer, tmp_path: Path) -> None:
    dump = Dump(4)
    lost = dump.rows["Generation"].pop(1)
    problems = await importer.refuses(dump.write(tmp_path / "dump"))
    children = [row for row in dump.rows["WorkflowVersion"] if row["generation_id"] == lost["generation_id"]]
    assert len(problems) == len(children)
    for child, problem in zip(children, problems, strict=True):
        place = dump.rows["WorkflowVersion"].index(child)
        assert problem.startswith("WorkflowVersion.json")
        assert f":{place + 1}:" in problem or f":{place + 2}:" in problem
        assert f"generation_id {lost['generation_id']} is neither in the dump nor in the tenant" in problem


async def test_an_id_that_comes_twice_is_refused_with_both_lines(importer: Importer, tmp_path: Path) -> None:
    row = {"wf_id": "w", "created_at": "2025-08-01T00:00:00Z", "updated_at": "2025-08-01T00:00:00Z"}
    (tmp_path / "Workflow.jsonl").write_text(f"{json.dumps(row)}\n\n{json.dumps(row)}\n")
    assert await importer.refuses(tmp_path) == ["Workflow.jsonl:3: wf_id w: the id comes again; it was in line 1."]


async def test_an_import_that_is_killed_leaves_nothing(clone: Callable[[], Awaitable[str]], tmp_path: Path) -> None:
    url = await clone()
    folder = Dump(5).write(tmp_path / "dump")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("INSERT INTO tenants (tenant_id) VALUES ('acme')")
        before = await digests(connection, "acme")
        async with connection.transaction():
            # Messages are stored last: everything else is in the transaction that waits here.
            await connection.execute("LOCK TABLE messages IN SHARE MODE")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app.cli", "import", "lucky", str(folder), "--tenant", "acme"),
                env={**os.environ, "CAIRN_DATABASE__URL": url, "PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )

            async def waits() -> bool:
                assert process.returncode is None, "the import ended"
                # The view shows one snapshot for each transaction unless told to look again.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                return bool(await connection.fetchval(WAITING))

            await eventually(waits, "an import that waits for the lock")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert await digests(connection, "acme") == before
    finally:
        await connection.close()


def test_the_command_tells_what_it_did_and_refuses_with_lines(
    clone: Callable[[], Awaitable[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def prepared() -> str:
        url = await clone()
        connection = await asyncpg.connect(url)
        await connection.execute("INSERT INTO tenants (tenant_id) VALUES ('acme')")
        await connection.close()
        return url

    environment = {"CAIRN_DATABASE__URL": asyncio.run(prepared()), "COLUMNS": "160"}

    def cairn(*arguments: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["import", "lucky", *arguments], env=environment)
        return ended.exit_code, ended.output

    dump = Dump(6)
    dump.row("Generation", 1)["number"] = 0
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "notes.txt").write_text("taken on Friday")
    folder = str(dump.write(tmp_path / "dump"))
    code, told = cairn(folder, "--tenant", "nobody")
    assert (code, "There is no tenant nobody" in told) == (1, True)
    code, told = cairn(folder, "--tenant", "acme", "--rehearse")
    assert (code, "Rehearsed: " in told) == (0, True)
    code, told = cairn(folder, "--tenant", "acme")
    assert code == 0
    assert "1 rows: the number was taken in its run, so it has the next" in told
    assert "app.errors: 1 left out: the log of the application's own errors" in told
    assert "notes.txt: not read" in told
    code, told = cairn(folder, "--tenant", "acme", "--every-row")
    assert "\n0 new rows imported." in told
    (tmp_path / "dump" / "Workflow.json").write_text('[{"wf_id": 1}]')
    (tmp_path / "dump" / "Workflow.jsonl").unlink(missing_ok=True)
    code, told = cairn(folder, "--tenant", "acme")
    assert code == 1
    assert "Workflow.json:1: the column wf_id " in told
    assert told.endswith("Nothing was imported.\n")
