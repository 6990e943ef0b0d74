"""The shell lines of the page about memory: another model, from its space to the end of the old one's."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.api_process import ApiProcess, of
from tests.e2e.test_the_shell_lines_of_the_documents_run import api, shell_lines
from tests.memory.embedding_server import embedding_server


async def test_the_lines_can_be_pasted(clone: Callable[[], Awaitable[str]], tmp_path: Path) -> None:
    url = await clone()
    async with embedding_server() as server:
        settings = {"embedder__url": server.url, "embedder__send_dimensions": True, "background__enabled": True}
        process = await asyncio.to_thread(ApiProcess, url, **settings)
        try:
            async with of(process) as operator:
                assert (await operator.put("/v1/tenants/acme", json={})).status_code == 201
                body = {"name": "k", "scopes": ["*"]}
                key = (await operator.post("/v1/api-keys", json=body, headers={"x-tenant-id": "acme"})).json()["key"]
            environment = {**os.environ, "CAIRN_URL": process.url, "CAIRN_KEY": key}
            script = f"{api()}\n{shell_lines('docs/memory.md')}"
            pasted = await asyncio.to_thread(
                subprocess.run, ["bash", "-euo", "pipefail", "-c", script],
                cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
        finally:
            process.close()
    assert pasted.returncode == 0, pasted.stderr
    assert '"request_id"' not in pasted.stdout
    found, gone, left = pasted.stdout.splitlines()[-3:]
    assert (json.loads(found)["space"], json.loads(found)["items"][0]["id"], gone) == ("large", "fox", "")
    assert [(space["name"], space["active"]) for space in json.loads(left)["items"]] == [("large", True)]
