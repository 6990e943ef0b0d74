"""Making a backup in a test, and reading its file with other tools than those that wrote it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx
import zstandard

from app.background.runner import drain
from app.background.work import JobRunner
from app.backups.exporting import Export
from app.backups.restoring import Restore
from app.backups.sections import sections
from app.backups.store import CREATE_KIND, RESTORE_KIND, VERIFY_KIND
from app.backups.verifying import Verify
from app.blobs.blobs import Blobs
from app.blobs.folder import Folder
from app.http.service import Service
from app.settings import BackupSettings, SigningSettings
from app.signing import signer_of
from tests.conftest import Make

# Rows of a tenant that take many parts: random, so that they do not shrink.
MANY = """
INSERT INTO messages (tenant_id, invocation_id, id, seq, role, payload, digest)
SELECT $1, $2, 'many ' || g.n, g.n, 'r',
  to_json((SELECT string_agg(md5(random()::text || g.n || m), '') FROM generate_series(1, $4::int) AS m)), ''
FROM generate_series(1, $3::int) AS g (n)
"""


def runner(
    service: Service,
    signing: SigningSettings | None = None,
    *,
    lease_seconds: float = 30,
    blobs: Blobs | None = None,
    line_bytes_max: int = 64 * 2**20,
) -> JobRunner:
    """A runner of every job about backups, in this object store if one is given."""
    ground, signing, blobs = service.ground, signing or SigningSettings(), blobs or service.ground.blobs
    settings, limits = ground.database.settings, BackupSettings(line_bytes_max=line_bytes_max)
    kinds = {
        CREATE_KIND: Export(settings, blobs, 3, signer_of(signing)),
        VERIFY_KIND: Verify(blobs, line_bytes_max),
        RESTORE_KIND: Restore(settings, limits, signing, blobs, ground.hints),
    }
    return JobRunner(kinds, lease_seconds, ground.hints, as_a_whole=True)


async def asked(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """A backup that is to be made."""
    answer = await client.post("/v1/backups", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def made(service: Service, client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """A backup that has been made."""
    backup = await asked(client, **body)
    await drain(runner(service).run, service.ground.database, limit=1)
    found = (await client.get(f"/v1/backups/{backup['id']}")).json()
    assert found["state"] == "completed", found
    return found


@dataclass
class File:
    """What stands in a file: the head, the rows of each section as text, the manifest."""

    head: dict[str, Any]
    columns: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    def rows(self, section: str) -> list[dict[str, Any]]:
        """The rows of a section."""
        return [json.loads(line) for line in self.lines[section]]

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each section, of its lines as they stand."""
        return {name: hashlib.sha256(b"".join(lines)).hexdigest() for name, lines in self.lines.items()}


def dangling(file: File) -> list[str]:
    """What refers to a row that is not in the file."""
    rows = {name: file.rows(name) for name in file.lines}
    found = []
    for section in sections():
        for parent in section.parents if section.name in rows else ():
            there = {tuple(row[name] for name in parent.of) for row in rows[parent.section]}
            for row in rows[section.name]:
                key = tuple(row[name] for name in parent.columns)
                if None not in key and key not in there:
                    found.append(f"{section.name} {row} to {parent.section}")
    return found


class Slow(Folder):
    """The folder of a service, in which an object takes as long as the test says: from its first part, or from when it
    is stored.
    """

    def __init__(self, service: Service) -> None:
        folder = service.ground.blobs
        assert isinstance(folder, Folder)
        super().__init__(folder.folder, folder.wait_seconds)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.stored, self.return_at_last = asyncio.Event(), asyncio.Event()
        self.return_at_last.set()

    async def put(self, tenant_id: str, name: str, parts: AsyncIterator[bytes]) -> None:
        """Store it, slowly."""
        await super().put(tenant_id, name, self._slowly(parts))
        self.stored.set()
        await self.return_at_last.wait()

    async def _slowly(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            self.begun.set()
            await self.go_on.wait()
            yield part


def read(content: bytes) -> File:
    """The file, with everything that it says of itself held against what is there."""
    assert content[-48:-32] == bytes.fromhex("5d2a4d1828000000") + b"CAIRNSUM"
    assert content[-32:] == hashlib.sha256(content[:-48]).digest()
    text = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read()
    lines = text.splitlines(keepends=True)
    assert b"".join(lines) == text
    file = File(json.loads(lines[0])["cairn_backup"])
    for line in lines[1:-1]:
        assert line.endswith(b"\n")
        assert min(line[:-1]) >= 32, line[:200]
        if line.startswith(b'{"section":'):
            section = json.loads(line)["section"]
            rows = file.lines[section["name"]] = []
            file.columns[section["name"]] = section["columns"]
        else:
            rows.append(line)
    file.manifest = json.loads(lines[-1])["manifest"]
    told = {one["name"]: (one["rows"], one["sha256"]) for one in file.manifest["sections"]}
    assert told == {name: (len(file.lines[name]), digest) for name, digest in file.digests().items()}
    assert list(file.lines) == file.head["sections"]
    return file


async def file_of(client: httpx.AsyncClient, backup: dict[str, Any]) -> File:
    """The file of a backup, downloaded."""
    answer = await client.get(f"/v1/backups/{backup['id']}/content")
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).hexdigest() == backup["digest"]
    assert len(answer.content) == backup["size_bytes"]
    file = read(answer.content)
    assert file.manifest == backup["manifest"]
    return file


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection beside those of the service."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def many(service: Service, client: httpx.AsyncClient, make: Make, rows: int, lines: int) -> None:
    """So many messages of one invocation, each of so many lines of 32 letters."""
    invocation = (await make.invocation())["id"]
    async with connected(service.ground.database.url) as other:
        await other.execute(MANY, client.headers["x-test-tenant"], invocation, rows, lines)
