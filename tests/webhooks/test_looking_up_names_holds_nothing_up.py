"""Name servers that hang hold up neither other look-ups, nor other work of the process, nor its end."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.webhooks.addresses import LOOKUPS_MAX, SystemLookup

HUNG_AT_EXIT = """
import asyncio, socket, threading
from app.webhooks.addresses import SystemLookup

socket.getaddrinfo = lambda *_args, **_more: threading.Event().wait()

async def main():
    await asyncio.wait([asyncio.ensure_future(SystemLookup()("hangs.example", 80))], timeout=0.1)

asyncio.run(main())
"""


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The name server of hangs.example does not answer before this is set."""
    answered, real = threading.Event(), socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> Any:
        if host == "hangs.example":
            answered.wait(30)
            raise OSError("no answer")
        return real(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield answered
    answered.set()


async def test_a_name_is_found_beside_many_that_hang(hanging: threading.Event) -> None:
    lookup = SystemLookup()
    waiting = [asyncio.ensure_future(lookup("hangs.example", 80)) for _ in range(LOOKUPS_MAX - 1)]
    assert set(await lookup("localhost", 80)) <= {"127.0.0.1", "::1"}
    assert await asyncio.to_thread(lambda: "at once") == "at once"
    hanging.set()
    assert {type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)} == {OSError}


async def test_there_is_a_most_and_who_gave_up_waiting_leaves_his_place(hanging: threading.Event) -> None:
    lookup = SystemLookup()
    waiting = [asyncio.ensure_future(lookup("hangs.example", 80)) for _ in range(LOOKUPS_MAX)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lookup("localhost", 80), 0.1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    hanging.set()
    assert await asyncio.wait_for(lookup("localhost", 80), 10)


@pytest.mark.parametrize("name", ["nobody-knows-it.invalid", "a" * 64 + ".example", "a..example"])
async def test_a_name_that_there_is_not_is_an_error_of_the_system(name: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        await SystemLookup()(name, 80)


def test_a_process_ends_while_a_look_up_hangs() -> None:
    subprocess.run([sys.executable, "-c", HUNG_AT_EXIT], timeout=30, check=True)
