"""A backup is asked for, made by a job, downloaded, listed and deleted."""

from __future__ import annotations

import httpx

from app.http.service import Service
from tests.backups.making import file_of, made
from tests.conftest import Make


async def test_an_empty_tenant_has_a_backup(service: Service, client: httpx.AsyncClient) -> None:
    backup = await made(service, client, label="of nothing")
    file = await file_of(client, backup)
    assert {name: file.rows(name) for name, lines in file.lines.items() if lines} == {
        "event_heads": [{"position": 0, "earliest": 1}]
    }
    assert (backup["label"], backup["progress"]) == ("of nothing", {"done": 1, "total": 1})


async def test_rows_of_the_tenant_are_in_it(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    invocation = await make.invocation(input={"a": 1.0})
    backup = await made(service, client)
    file = await file_of(client, backup)
    [row] = file.rows("invocations")
    assert (row["id"], row["input"]) == (invocation["id"], '{"a":1.0}')
    assert backup["progress"]["done"] == file.manifest["rows"] == sum(len(lines) for lines in file.lines.values())
