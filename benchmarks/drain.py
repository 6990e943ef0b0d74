"""`python -m benchmarks.drain`: claimers empty a deep queue through two API processes, and what they saw is checked.

First the time of a claim with a hundred thousand waiting is held against the time with a thousand, in alternating
rounds; then the queue is emptied. 1 when a claim takes more than 1.5 times as long, or when anything was claimed twice,
lost, or out of its session's order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import uvloop

from benchmarks.ground import Ground, service_process, standing
from benchmarks.scenarios.queue import fill

CLAIMERS = 64
FEW, MANY = (100, 10), (10_000, 10)
MOST = 1.5
ROUNDS = 5
CLAIMS_OF_A_ROUND = 640
REPORT_SECONDS = 10
OUT_OF_ORDER = """
SELECT count(*) FROM (
  SELECT started_at, lag(settled_at) OVER (PARTITION BY session_number ORDER BY sequence) AS settled_before
  FROM submissions WHERE tenant_id = $1
) AS s WHERE s.started_at < s.settled_before
"""
LEFT = "SELECT count(*) FROM submissions WHERE tenant_id = $1 AND (status <> 'settled' OR attempt_count <> 1)"


class Connection:
    """A kept-alive connection to an API process; it knows no more of HTTP than the answers of the service need."""

    def __init__(self, url: str, key: str) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self._key = key

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a body and give the answer's. Raises `RuntimeError` for a refusal."""
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        length = answered.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        content = await self._reader.readexactly(int(length or 0))
        if not answered.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(content.decode())
        return content

    def close(self) -> None:
        """Let it go."""
        self._writer.close()


@dataclass
class Seen:
    """What the claimers saw: how long claims took, and which ids they got."""

    claim_seconds: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


async def work(urls: Sequence[str], key: str, limit: int, claims: int | None, progress: int = 0) -> Seen:
    """Claim and complete with every claimer, until so many claims were made or nothing is left."""
    seen = Seen()
    left = claims
    reported = time.perf_counter()

    async def claimer(place: int) -> None:
        nonlocal left, reported
        connection = Connection(urls[place % len(urls)], key)
        await connection.open()
        request = json.dumps({"owner_id": f"w{place}", "agent": "bench", "limit": limit, "lease_seconds": 600})
        while left is None or left > 0:
            if left is not None:
                left -= 1
            started = time.perf_counter()
            items = json.loads(await connection.post("/v1/submissions/claim-next", request.encode()))["items"]
            seen.claim_seconds.append(time.perf_counter() - started)
            if not items:
                break
            for item in items:
                seen.ids.append(item["id"])
                body = json.dumps({"attempt_id": item["attempt_id"]}).encode()
                await connection.post(f"/v1/submissions/{item['id']}/complete", body)
            if progress and time.perf_counter() - reported > REPORT_SECONDS:
                reported = time.perf_counter()
                print(f"  {len(seen.ids):,} of {progress:,} claimed", flush=True)
        connection.close()

    await asyncio.gather(*(claimer(place) for place in range(CLAIMERS)))
    return seen


def growth(ground: Ground, urls: Sequence[str], many_key: str) -> float:
    """How many times as long the median claim takes with many waiting as with few."""
    ratios = []
    for place in range(ROUNDS):
        few = f"few{place}"
        key = ground.tenant_key(few)
        fill(ground, few, "bench", *FEW)
        medians = {}
        for name, of_key in sorted({"few": key, "many": many_key}.items(), reverse=bool(place % 2)):
            seen = uvloop.run(work(urls, of_key, 1, CLAIMS_OF_A_ROUND))
            medians[name] = median(seen.claim_seconds)
        ratios.append(medians["many"] / medians["few"])
    print(f"Claim, {MANY[0] * MANY[1]:,} waiting, of {FEW[0] * FEW[1]:,} waiting: {median(ratios):.2f} times as long,"
          f" {min(ratios):.2f} to {max(ratios):.2f} (at most {MOST})", flush=True)  # fmt: skip
    return median(ratios)


def emptied(ground: Ground, urls: Sequence[str], key: str, tenant_id: str) -> bool:
    """Empty the queue, and say whether everything was claimed once and in its session's order."""
    waiting = ground.sql("SELECT count(*) FROM submissions WHERE tenant_id = $1 AND status = 'queued'", tenant_id)[0][0]
    seen = uvloop.run(work(urls, key, 10, None, waiting))
    twice = len(seen.ids) - len(set(seen.ids))
    left, disordered = ground.sql(LEFT, tenant_id)[0][0], ground.sql(OUT_OF_ORDER, tenant_id)[0][0]
    print(f"{len(seen.ids):,} claimed by {CLAIMERS} through {len(urls)} processes: {twice} twice, {left} left or"
          f" claimed again, {disordered} before the one ahead was settled", flush=True)  # fmt: skip
    return not (twice or left or disordered)


def main() -> int:
    """Measure, then empty."""
    argparse.ArgumentParser(prog="python -m benchmarks.drain", description=__doc__).parse_args()
    with standing(rows=0) as ground, service_process(ground.database_url, ground.admin_key) as second:
        urls = (ground.server.url, second.url)
        key = ground.tenant_key("many")
        fill(ground, "many", "bench", *MANY)
        grown = growth(ground, urls, key)
        sound = emptied(ground, urls, key, "many")
    return 0 if sound and grown <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
