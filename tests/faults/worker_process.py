"""A worker in a process of its own: it claims one submission, and writes for it whatever happened meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.client import Cairn, ConflictError, Retry

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 10
STREAM = "agents/a/i"


class WorkerProcess:
    """Starts one; `claimed` is what it has claimed, `go_on` lets it write and gives what came of each call."""

    def __init__(self, url: str, key: str, agent: str, invocation_id: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker_process", url, key, agent, invocation_id],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    async def claimed(self) -> dict[str, Any]:
        """Its submission, once it has one."""
        return await self._line()

    async def go_on(self) -> dict[str, str]:
        """Let it write; the code of each refusal, or `done`, by the call's name."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return await self._line()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        found: dict[str, Any] = json.loads(line)
        return found


def main(url: str, key: str, agent: str, invocation_id: str) -> None:
    """Claim with a lease of a second, wait for a line, and then write everything that a worker writes."""
    with Cairn(url, key=key, retry=Retry(attempt_max=8)) as cairn:
        [held] = cairn.submissions.claim_next("w1", agent=agent, lease_seconds=1, wait_seconds=20)
        assert held.attempt_id is not None
        attempt = (held.id, held.attempt_id)
        claim = cairn.conversations.acquire(STREAM, "w1")
        print(json.dumps({"id": held.id, "attempt_id": held.attempt_id}), flush=True)  # noqa: T201
        sys.stdin.readline()
        fenced = cairn.using(attempt=attempt)
        batch = fenced.batch()
        batch.invocations.patch(invocation_id, feedback="late")
        calls: dict[str, Callable[[], object]] = {
            "heartbeat": lambda: fenced.invocations.heartbeat(invocation_id),
            "output": lambda: fenced.messages.record(invocation_id, id="late", role="result", payload=1),
            "append": lambda: fenced.conversations.append(
                STREAM,
                [{"id": "late"}],
                producer_id=claim.producer_id,
                producer_epoch=claim.producer_epoch,
                incarnation=claim.incarnation,
                producer_sequence=claim.next_producer_sequence,
                attempt=attempt,
            ),
            "batch": batch.send,
            "input_applied": lambda: cairn.submissions.input_applied(*attempt),
            "replace": lambda: cairn.submissions.replace_attempt(*attempt, "att_late", lease_seconds=30),
            "requeue": lambda: cairn.submissions.requeue(*attempt),
            "fail": lambda: cairn.submissions.fail(*attempt, "late"),
            "complete": lambda: cairn.submissions.complete(*attempt),
        }
        said = {name: outcome(call) for name, call in calls.items()}
        renewal = cairn.submissions.renew_leases("w1", [held.id], lease_seconds=30)
        said["renewed"] = ",".join(renewal.renewed)
        print(json.dumps(said), flush=True)  # noqa: T201


def outcome(call: Callable[[], object]) -> str:
    """`done`, or the code of the conflict."""
    try:
        call()
    except ConflictError as error:
        return error.code
    return "done"


if __name__ == "__main__":
    main(*sys.argv[1:])
