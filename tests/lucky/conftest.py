"""What the tests of the import stand on: a tenant to import into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from app.db.database import Database
from app.http.service import Service
from app.imports.dump import DumpRefused
from app.imports.report import Report
from app.imports.store import import_dump
from tests.digests import digests


class Importer:
    """Imports dumps into the tenant of the test's client."""

    def __init__(self, database: Database, client: httpx.AsyncClient) -> None:
        self.database, self.client = database, client
        self.tenant = client.headers["x-test-tenant"]

    async def run(self, folder: Path, **options: Any) -> Report:
        """Import a dump."""
        return await import_dump(self.database, self.tenant, folder, **options)

    async def refuses(self, folder: Path) -> list[str]:
        """Why a dump is refused; nothing is stored."""
        before = await self.digests()
        with pytest.raises(DumpRefused) as refused:
            await self.run(folder)
        assert await self.digests() == before
        return refused.value.problems

    async def digests(self) -> dict[str, str]:
        """The contents of the tenant."""
        async with self.database.reading() as reader:
            return await digests(reader.connection, self.tenant)

    async def get(self, path: str, **params: Any) -> Any:
        """What the service says of it."""
        answer = await self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def importer(service: Service, client: httpx.AsyncClient) -> Importer:
    """Imports into a tenant of this test alone."""
    return Importer(service.ground.database, client)
