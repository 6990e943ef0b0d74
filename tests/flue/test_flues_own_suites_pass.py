"""Flue's published contract suites, and the adapter's own tests, against the service on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.embedded import Servers
from tests.api_process import serving
from tests.conftest import ADMIN_KEY

ADAPTER = Path(__file__).resolve().parents[2] / "adapters" / "flue"
# With an empty cache of packages and a cold machine; the suites take a fraction of it.
SECONDS_MAX = 600


@pytest.mark.timeout(SECONDS_MAX + 60)
async def test_flues_suites_and_the_adapters_tests_pass_over_http(
    servers: Servers, clone: Callable[[], Awaitable[str]]
) -> None:
    if shutil.which("npm") is None and os.environ.get("CI") != "true":
        pytest.skip("npm is not installed, which the Flue adapter needs (on Debian and Ubuntu: apt-get install npm)")
    url = await clone()
    with serving(url, nats__url=servers.nats_url) as first, serving(url, nats__url=servers.nats_url) as second:
        environment = os.environ | {"CAIRN_TEST_URLS": f"{first.url},{second.url}", "CAIRN_TEST_ADMIN_KEY": ADMIN_KEY}
        ran = await asyncio.to_thread(
            subprocess.run, [ADAPTER / "run", "test"], env=environment, timeout=SECONDS_MAX, check=False
        )
        said = first.output()[-4000:] + second.output()[-4000:]
        assert ran.returncode == 0, f"Vitest says above what failed; the service said:\n{said}"
