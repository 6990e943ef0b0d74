"""Many who acquire, renew, write and release at random over two processes, while Redis hangs now and then."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from app.embedded import Servers
from app.embedded.process import free_port
from tests.cache.caching import own_redis
from tests.conftest import http, new_tenant, running, settings_for
from tests.leases.calls import Leases
from tests.payloads import problem

RUN_SECONDS, LEASE_SECONDS, HOLDERS = 8.0, 1, 6


class Referee:
    """What is known for sure of one lease: which tokens were given, and until when each holds at least.

    Answers may come late on a busy machine; what is judged is what was known before a call was made.
    """

    def __init__(self) -> None:
        self.tokens: set[int] = set()
        self.holding: dict[int, float] = {}
        self.counts: Counter[str] = Counter()

    @property
    def greatest(self) -> int:
        """The greatest token that is known to be given."""
        return max(self.tokens, default=0)

    def acquired(self, token: int, greatest: int, asked_at: float) -> None:
        """A holder was given a token: a new one, greater than those before, while none of these held for sure."""
        assert token not in self.tokens
        assert token > greatest
        now = time.monotonic()
        assert not [other for other, until in self.holding.items() if other < token and until > now]
        self.tokens.add(token)
        self.renewed(token, asked_at)

    def renewed(self, token: int, asked_at: float) -> None:
        """A holder was told that it holds: from some moment after it asked. The clocks of three servers count here."""
        self.holding[token] = asked_at + LEASE_SECONDS - 0.05

    def over(self, token: int) -> None:
        """A holder has given the lease up, or was told that it lost it."""
        self.holding.pop(token, None)


async def hold(referee: Referee, clients: list[httpx.AsyncClient], name: str, ends_at: float) -> None:
    """Try to get the lease and do at random what holders do, under another name each time."""
    for turn in range(10_000):
        if time.monotonic() > ends_at:
            return
        holder, wait = f"{name} {turn}", random.choice((0, 1))
        greatest, asked_at = referee.greatest, time.monotonic()
        taken = await Leases(random.choice(clients)).ask(
            "acquire", holder=holder, lease_seconds=LEASE_SECONDS, wait_seconds=wait
        )
        if taken.status_code != 200:
            assert problem(taken) == (409, "lease_held")
            await asyncio.sleep(random.random() / 5)
            continue
        token = int(taken.json()["fencing_token"])
        referee.acquired(token, greatest, asked_at)
        holds = True
        while holds:
            await asyncio.sleep(random.choice((0.05, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 1.2)))
            holds = await step(referee, random.choice(clients), holder, token)


async def step(referee: Referee, client: httpx.AsyncClient, holder: str, token: int) -> bool:
    """One thing that a holder does; whether it still has the lease as far as it knows."""
    (what,) = random.choices(("renew", "write", "failing batch", "release"), (8, 2, 4, 1))
    holding, asked_at, greatest = {"holder": holder, "fencing_token": token}, time.monotonic(), referee.greatest
    if what == "failing batch":
        release = {"method": "POST", "path": "/v1/leases/l/release", "body": holding}
        operations = [release, {"method": "GET", "path": "/v1/workflows/absent"}]
        await client.post("/v1/batch", json={"operations": operations})
        return True
    if what == "release":
        referee.over(token)
    if what == "write":
        answer = await client.put("/v1/workflows/w", json={"metadata": {}}, headers={"lease": f"l;{token}"})
    else:
        answer = await Leases(client).ask(what, **holding)
    assert answer.status_code in (200, 201, 409), answer.text
    referee.counts[f"{what} {answer.is_success}"] += 1
    if not answer.is_success:
        referee.over(token)
        return False
    # Who had a greater token before this was asked, had it for good.
    assert what == "release" or greatest == token
    if what == "renew":
        referee.renewed(token, asked_at)
    return what != "release"


async def hang(server: Servers, ends_at: float) -> None:
    """Let Redis hang for a moment, or until its connections are given up, again and again."""
    pids = list(server.pids().values())
    while time.monotonic() < ends_at:
        await asyncio.sleep(random.random() * 2)
        for number, seconds in ((signal.SIGSTOP, random.choice((0.03, 0.3, 1.5))), (signal.SIGCONT, 0)):
            for pid in pids:
                os.kill(pid, number)
            await asyncio.sleep(seconds)


async def test_b27_no_two_hold_it_and_no_stale_token_writes(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url = await clone()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(own_redis(tmp_path, free_port()))
        settings = settings_for(url, redis={"url": server.redis_url})
        first, second = [await stack.enter_async_context(running(settings)) for _ in range(2)]
        client = await stack.enter_async_context(await new_tenant(first))
        headers = {"authorization": client.headers["authorization"]}
        clients = [client, await stack.enter_async_context(http(second, **headers))]
        referee, ends_at = Referee(), time.monotonic() + RUN_SECONDS
        await asyncio.gather(hang(server, ends_at), *(hold(referee, clients, f"h{n}", ends_at) for n in range(HOLDERS)))
        assert referee.counts["renew True"] > 5, referee.counts
        assert (await client.get("/v1/leases/l")).json()["fencing_token"] == referee.greatest
