"""A file that no export wrote is refused as a whole, with a code and a place, whatever it holds; nothing is written."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import httpx
import pytest

from app.backups.format import SEAL_HEAD
from app.backups.sections import sections, with_what_they_need
from app.db.revision import revisions
from app.db.sql import Statement
from app.http.service import Service
from app.signing import new_seed, public_key_of
from app.tables import METADATA
from tests.backups.files import SIGNER, head_of, lines_of, pieces_of, rows_of, sealed, text_of, written
from tests.backups.rich import restored, sections_of
from tests.conftest import new_tenant

COLUMNS = {section.name: section.columns for section in sections()}
assert METADATA.tables
Change = Callable[[dict[str, list[dict[str, Any]]]], Any]
ROWS = Statement(
    "SELECT (SELECT count(*) FROM workflows WHERE tenant_id = :t) + (SELECT count(*) FROM artifacts WHERE tenant_id ="
    " :t AND state = 'live') + (SELECT count(*) FROM event_heads WHERE tenant_id = :t AND position > 0) AS n"
)


def changed(file: bytes, change: Change, **head: Any) -> bytes:
    """A file with other rows, whose digests and seal are right."""
    found = {
        name: [json.loads(line) for line in text.split(b"\n")[:-1]] for name, text in rows_of(pieces_of(file)).items()
    }
    rows = {name: found.get(name, []) for name in COLUMNS}
    before = deepcopy(rows)
    change(rows)
    # No more sections than need be, so that it does not take long.
    touched = [name for name in rows if rows[name] != before[name]]
    needed = {section.name for section in with_what_they_need(touched)} or set(rows)
    told = {name: (list(before[name][0]), rows[name]) for name in rows if name in needed}
    return written(told, **{"schema_revision": revisions()[-1], "artifacts": "bytes", **head})


def row(section: str, number: int = 0, **values: Any) -> Change:
    """Give a row other values."""
    return lambda rows: rows[section][number].update(values)


def twice(section: str) -> Change:
    """Let a row be there twice."""
    return lambda rows: rows[section].append(rows[section][0])


def circle(section: str, column: str) -> Change:
    """Let each of two rows descend from the other."""

    def change(rows: dict[str, list[dict[str, Any]]]) -> None:
        one, two = rows[section][:2]
        one[column], two[column] = two["id"], one["id"]
        for each in (one, two):
            each.update({"operation": "mutation"} if "operation" in each else {})

    return change


HOSTILE: Mapping[str, Change] = {
    "a row of another tenant": lambda rows: [one.update(tenant_id="other") for one in rows["workflows"]],
    "an unknown column": lambda rows: [one.update(more=1) for one in rows["workflows"]],
    "a column too few in one row": lambda rows: rows["workflows"][1].pop("name"),
    "a number for a text": row("invocations", started_at=5),
    "no instant": row("invocations", created_at="one day"),
    "a list for a text": row("workflows", name=["x"]),
    "an object for a number": row("messages", seq={"a": 1}),
    "a number beyond its type": row("messages", seq=2**70),
    "an instant that never comes": row("workflows", created_at="infinity"),
    "a language that is none": row("memory_spaces", language="nonsense"),
    "no revision": row("workflows", revision=None),
    "no id": row("workflows", id=None),
    "NUL in a text": row("workflows", name="a\x00b"),
    "NUL in a payload": row("messages", payload='"a\x00b"'),
    "half a surrogate": row("workflows", name="\ud800"),
    "a payload that is no JSON": row("messages", payload="{"),
    "bytes of no artifact": row("artifact_bytes", -1, hash="\\xyz", position=0),
    "an unknown member": lambda rows: rows["workflows"][0].update(more=1),
    "a state that is none": row("invocations", status="dancing"),
    "a row twice": twice("workflows"),
    "a row of a single one twice": twice("cleanup_schedules"),
    "a dsl_hash of another dsl": row("versions", dsl_hash="jcs:" + "0" * 64),
    "another dsl": row("versions", dsl='{"forged":true}'),
    "b10 versions in a circle": circle("versions", "parent1_id"),
    "b10 a version that is its own parent": lambda rows: rows["versions"][0].update(
        parent1_id=rows["versions"][0]["id"], operation="mutation"
    ),
    "b10 invocations in a circle": circle("invocations", "parent_invocation_id"),
    "a message of no invocation": row("messages", invocation_id="nowhere"),
    "a submission of no session": row("submissions", session_key="nowhere"),
    "other bytes of an artifact": row("artifact_bytes", bytes="AAAA"),
    "bytes that are no base64": row("artifact_bytes", bytes="?"),
    "bytes of an artifact at another place": row("artifact_bytes", position=1),
    "an artifact without bytes": lambda rows: rows["artifact_bytes"].clear(),
    "an artifact of another size": row("artifacts", 1, size_bytes=1),
    "an artifact of parts of no size": row("artifacts", part_bytes=0),
    "an artifact without digests of its parts": row("artifacts", part_digests=None),
    "another chunk of an attachment": row("attachment_chunks", bytes="AAAA"),
    "an attachment without chunks": lambda rows: rows["attachment_chunks"].clear(),
    "another digest of an attachment": row("attachments", 0, digest="\\x" + "00" * 32),
    "a vector of another space's size": row("memory_vectors", embedding="[1,2]"),
    "a space of another number": row("memory_spaces", dimensions=-1),
    "two active spaces": lambda rows: [one.update(active=True) for one in rows["memory_spaces"]],
    "two heads of a session": lambda rows: [
        one.update(session_key=rows["submissions"][0]["session_key"], is_head=True) for one in rows["submissions"][:2]
    ],
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_rows_that_no_export_wrote_are_refused(file: bytes, service: Service, what: str) -> None:
    job, count = await refused(service, changed(file, HOSTILE[what]))

    assert (job["state"], job["error"]["code"]) == ("failed", "backup_refused"), job
    assert "section" in job["error"] or "constraint" in job["error"], job
    assert count == 0


@pytest.mark.parametrize("values", [{"part_bytes": 0}, {"part_digests": "\\x"}, {"hash": "\\x"}, {"size_bytes": -1}])
async def test_of_an_artifact_that_is_only_named_the_parts_are_right(
    file: bytes, service: Service, values: Mapping[str, Any]
) -> None:
    named = changed(file, row("artifacts", 1, **values), artifacts="references")
    job, _ = await refused(service, named)
    assert (job["state"], job["error"]["code"]) == ("failed", "backup_refused"), job


async def refused(service: Service, file: bytes, **signing: Any) -> tuple[dict[str, Any], int]:
    """The job of a restore, and how much there is of the tenant afterwards."""
    async with await new_tenant(service) as client:
        job = await restored(service, client, file, **signing)
        count = await service.ground.database.row(ROWS, t=client.headers["x-test-tenant"])
    assert count is not None
    return job, count["n"]


async def test_the_same_file_unchanged_is_restored(file: bytes, service: Service) -> None:
    """So that it is the change for which the others are refused."""
    async with await new_tenant(service) as client:
        sections_of(await restored(service, client, changed(file, lambda rows: None)))


@pytest.mark.parametrize("columns", [("id",), ("id", 'a"b'), ("id", "session_key\\"), ("path", "id")])
async def test_an_older_file_without_a_column_that_is_needed_is_refused(service: Service, columns: list[str]) -> None:
    for section in ("submissions", "artifacts", "versions", "attachments"):
        rows = [dict.fromkeys(columns, "x")]
        job, count = await refused(service, written({section: (columns, rows)}, schema_revision="0039"))
        assert (job["state"], job["error"]["code"], count) == ("failed", "backup_refused", 0), job


async def test_a_row_that_nests_without_end_is_refused(file: bytes, service: Service) -> None:
    deep = changed(file, row("workflows", metadata="deep"))
    text = text_of(deep).replace(b'"deep"', b"[" * 500_000 + b"]" * 500_000)
    job, count = await refused(service, sealed(text))
    # Its manifest is another's, too: that is found first.
    assert (job["error"]["code"], count) == ("backup_damaged", 0)


async def test_b38_a_corrupt_block_fails_the_restore_as_a_whole(file: bytes, service: Service) -> None:
    chance = random.Random(3)
    for place in (len(file) - 49, len(file) - 60, len(file) - 1, 100, *(chance.randrange(len(file)) for _ in range(3))):
        damaged = bytearray(file)
        damaged[place] ^= 0x20
        job, count = await refused(service, bytes(damaged))
        assert (job["state"], job["error"]["code"], count) == ("failed", "backup_damaged", 0)
    for length in (0, 1, 47, 48, len(file) // 2, len(file) - 1):
        if length:
            job, count = await refused(service, file[:length])
            assert (job["error"]["code"], count) == ("backup_damaged", 0)


async def test_a_bomb_and_what_is_no_backup_are_refused(service: Service) -> None:
    head = text_of(written({})).splitlines(keepends=True)[0]
    for file in (sealed(head + b"[" * 200_000_000), b"not a backup at all" * 10, sealed(b"{}\n"), sealed(b"")):
        job, _ = await refused(service, file)
        assert job["error"]["code"] == "backup_damaged"


async def test_a_newer_schema_and_a_newer_format_are_refused(file: bytes, service: Service) -> None:
    newer = changed(file, lambda rows: None, schema_revision="9999")
    for content in (newer, sealed(b'{"cairn_backup":{"format_version":2}}\n')):
        job, count = await refused(service, content)
        assert (job["error"]["code"], count) == ("backup_newer", 0)


async def test_only_what_a_trusted_key_signed_is_restored(file: bytes, service: Service) -> None:
    trusted = {"trusted_keys": [SIGNER.public_key]}
    for content in (file, written({}, signer=None, schema_revision=revisions()[-1])):
        job, count = await refused(service, content, **trusted)
        assert (job["error"]["code"], count) == ("backup_untrusted", 0)
    job, _ = await refused(service, written({}, schema_revision=revisions()[-1]), **trusted)
    assert job["state"] == "completed"
    assert job["report"]["backup"]["public_key"] == SIGNER.public_key
    assert public_key_of(new_seed()) != SIGNER.public_key


async def test_a_line_beyond_the_limit_is_refused(service: Service) -> None:
    line = lines_of([{"id": "w", "name": "x" * 70 * 2**20}])
    head = text_of(written({"workflows": (("id", "name"), [])})).splitlines(keepends=True)
    job, _ = await refused(service, sealed(head[0] + head[1] + line))
    assert (job["error"]["code"], job["error"]["check"]) == ("backup_damaged", "lines")


async def test_b10_no_circle_is_closed_by_way_of_what_is_there(file: bytes, fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, file))

        # `child` descends from `v`; the file says the contrary, of `v` alone.
        def contrary(rows: dict[str, list[dict[str, Any]]]) -> None:
            (version,) = (one for one in rows["versions"] if one["id"] == "v")
            version.update(parent1_id="child", operation="mutation")
            rows["versions"][:] = [version]
            for name, left in rows.items():
                if name not in ("versions", "workflows", "generations", "evolution_runs"):
                    left.clear()

        job = await restored(fresh, client, changed(file, contrary), on_conflict="overwrite")
        assert (job["state"], job["error"]["code"]) == ("failed", "backup_refused"), job
        assert (await client.get("/v1/versions/v")).json()["parent1_id"] is None


async def test_what_cannot_be_restored_is_said_at_once(client: httpx.AsyncClient) -> None:
    path = "/v1/backups/restore"
    assert (await client.post(path)).status_code == 422
    assert (await client.post(path, params={"backup_id": "x"}, content=b"x")).status_code == 422
    assert (await client.post(path, params={"backup_id": "x"})).json()["code"] == "backup_not_found"
    assert (await client.post(path, params={"mode": "undo"}, content=b"x")).status_code == 422


def test_hashes_of_the_tests_own_files_are_right() -> None:
    file = sealed(b"x")
    assert file[-48:] == SEAL_HEAD + hashlib.sha256(file[:-48]).digest()
    assert head_of([]).format_version == 1
