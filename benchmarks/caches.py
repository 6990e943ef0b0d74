"""`python -m benchmarks.caches`: what a cache would save, for each thing that could be kept, and what is kept costs.

Every answer comes from the whole service over HTTP; the sides of a comparison take turns in short rounds of one run.
A cache that the service does not have (`benchmarks.cached`) is measured at its best: everything is there and nothing
ever ends. 1 when a version from memory is less than 1.5 times as fast as one from PostgreSQL, the age of keys that is
the default costs more than a tenth of the longest, or a limited tenant's read comes at less than half the rate of a
free one's.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from app.embedded import start_servers
from benchmarks import generator
from benchmarks.ground import FOLDER, Ground, post, service_process, standing
from benchmarks.process import HOST, Server, children, cpu_seconds, free_port, serving
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison, Load, Pace, compare

PACE = Pace(clients=(1, 32), rounds=5, seconds=2)
UNCACHED = {"CAIRN_HTTP__VERSION_SECONDS": "0"}
DSL = {"nodes": [{"id": f"n{place}", "prompt": "Measure twice, cut once. " * 8} for place in range(10)]}
NEW_VERSION = {"id": "kept", "dsl": DSL, "operation": "init"}
VERSION = Request("GET", "/v1/versions/kept")
RECORDS = [{"v": 1, "id": "r", "type": "note", "content": "measure"}]
LIMITED = {"requests_per_second": 1_000_000, "burst": 10_000_000}


@dataclass(frozen=True)
class Sides:
    """API processes on one database and one Redis, by what they keep."""

    ground: Ground
    servers: dict[str, Server]
    redis_pid: int

    def load(self, side: str, request: Request, key: str = "") -> Load:
        """The load of this request on one of them."""
        url, bearer = self.servers[side].url, key or self.ground.key
        return lambda clients, seconds: generator.load(url, [request], bearer, clients, seconds).rate

    def compared(self, name: str, subject: str, limits: dict[str, Load], load: Load, *bounds: Bound) -> bool:
        """Measure, print, and say whether the bounds hold."""
        ratios = compare(name, Comparison(subject, load, limits, bounds), PACE)
        for ratio in ratios:
            least = "" if ratio.least is None else f" (at least {ratio.least})"
            print(f"{name}: {subject} of {ratio.limit}, {ratio.clients} clients: {ratio.median:.2f},"
                  f" {ratio.low:.2f} to {ratio.high:.2f}{least}", flush=True)  # fmt: skip
        return all(ratio.holds for ratio in ratios)

    def work(self, side: str, request: Request) -> Load:
        """Requests for each second that the API, PostgreSQL and Redis work: what others do, it leaves out."""
        pids = (self.servers[side].pid, self.ground.postgres_pid, self.redis_pid)

        def load(clients: int, seconds: int) -> float:
            before = sum(used(pid) for pid in pids)
            rate = generator.load(self.servers[side].url, [request], self.ground.key, clients, seconds).rate
            return rate * seconds / (sum(used(pid) for pid in pids) - before)

        return load


def used(pid: int) -> float:
    """The processor time of a process and all below it."""
    return cpu_seconds(pid) + sum(used(child) for child in children(pid))


@contextlib.contextmanager
def sides() -> Iterator[Sides]:
    """All of them, running."""
    with standing(rows=0) as ground, contextlib.ExitStack() as stack:
        redis = stack.enter_context(start_servers(FOLDER / "redis", ephemeral=True, postgres=False, nats=False))
        url = redis.redis_url
        more = {"CAIRN_REDIS__URL": url, "CAIRN_BACKGROUND__ENABLED": "false"}

        def process(**settings: str) -> Server:
            return stack.enter_context(service_process(ground.database_url, ground.admin_key, **more, **settings))

        servers = {"service": process(), "uncached": process(**UNCACHED)}
        servers |= {f"{age} s": process(**UNCACHED, CAIRN_AUTH__CACHE_SECONDS=age) for age in ("0", "5")}
        for kind in ("memory", "redis"):
            port = free_port()
            command = ["-m", "benchmarks.cached", kind, "serve", "--host", HOST, "--port", str(port)]
            environment = {
                "CAIRN_DATABASE__URL": ground.database_url, "CAIRN_AUTH__ADMIN_KEY": ground.admin_key,
                "CAIRN_LOG__LEVEL": "WARNING", **more, **UNCACHED,
            }  # fmt: skip
            servers[kind] = stack.enter_context(serving(command, port, environment))
        yield Sides(ground, servers, redis.pids()["Valkey"])


def versions(run: Sides) -> bool:
    """A version of two kilobytes: from the memory of the service, from PostgreSQL, and from Redis."""
    limits = {"PostgreSQL": run.work("uncached", VERSION)}
    run.compared("version, by processor time", "from Redis", limits, run.work("redis", VERSION))
    run.compared("version, by processor time", "from memory", limits, run.work("service", VERSION))
    limits = {"PostgreSQL": run.load("uncached", VERSION)}
    run.compared("version", "from Redis", limits, run.load("redis", VERSION))
    return run.compared("version", "from memory", limits, run.load("service", VERSION), Bound("PostgreSQL", 1.5))


def heads(run: Sides) -> bool:
    """A reader of a conversation who has read everything asks for more."""
    post_as = {"Authorization": f"Bearer {run.ground.key}"}
    identity = {"agent_name": "bench", "instance_id": "i"}
    post(run.ground.server.url, "/v1/conversations", {"path": "kept", "identity": identity}, "PUT", **post_as)
    claim = run.ground.post("/v1/conversations/acquire", {"path": "kept", "producer_id": "bench"})
    body = {
        "path": "kept", "producer_id": "bench", "producer_epoch": claim["producer_epoch"],
        "incarnation": claim["incarnation"], "producer_sequence": 0, "records": RECORDS,
    }  # fmt: skip
    offset = run.ground.post("/v1/conversations/append", body)["offset"]
    read = Request("GET", "/v1/conversations/read?" + urllib.parse.urlencode({"path": "kept", "offset": offset}))
    for kind in ("memory", "redis"):
        limits = {"PostgreSQL": run.load("uncached", read)}
        run.compared("stream head", f"from {kind}", limits, run.load(kind, read))
    return True


def keys(run: Sides) -> bool:
    """The same read, by the age that keys may have."""
    limits = {f"{age} s": run.load(f"{age} s", VERSION) for age in ("5", "0")}
    return run.compared("key", "known for 1 s", limits, run.load("uncached", VERSION), Bound("5 s", 0.9))


def rate_limits(run: Sides) -> bool:
    """The same read, by a tenant that has a limit and one that has none."""
    ground = run.ground
    limited, free = ground.tenant_key("limited"), ground.tenant_key("free")
    operator = {"Authorization": f"Bearer {ground.admin_key}"}
    post(ground.server.url, "/v1/tenants/limited/limits", LIMITED, "PUT", **operator)
    for key in (limited, free):
        body = {**NEW_VERSION, "workflow": {"name": "bench"}}
        post(ground.server.url, "/v1/workflows/w/versions", body, Authorization=f"Bearer {key}")
    limits = {"without one": run.load("uncached", VERSION, free)}
    load = run.load("uncached", VERSION, limited)
    return run.compared("rate limit", "a tenant with one", limits, load, Bound("without one", 0.5))


def main() -> int:
    """Measure all of them, or those that are named."""
    measures = {"versions": versions, "heads": heads, "keys": keys, "limits": rate_limits}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.caches", description=__doc__)
    parser.add_argument("only", nargs="*", choices=[[], *measures])
    only = parser.parse_args().only or list(measures)
    with sides() as run:
        run.ground.post("/v1/workflows/bench-workflow/versions", NEW_VERSION)
        held = [measures[name](run) for name in only]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
