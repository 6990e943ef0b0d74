"""A worker that counts words, until Ctrl-C or SIGTERM.

`CAIRN_KEY=$(cat var/development-key) .venv/bin/python -m examples.worker` beside `make run`; `CAIRN_URL` names another
service. Its submissions are for the agent `counter`; their input is `{"invocation_id": …, "text": …}`, and it ends that
invocation, which must be there.
"""

from __future__ import annotations

import asyncio
import logging
import os

from app.client import AsyncCairn, HeldSubmission, Requeue


async def count(submission: HeldSubmission) -> None:
    """Count the words of a text, and record the answer in the transaction that settles the submission."""
    assert submission.input is not None
    asked = submission.input.value()
    if not asked["text"]:
        raise Requeue("the text is not there yet", delay_seconds=30)
    counted = len(asked["text"].split())
    batch = submission.cairn.batch()
    batch.invocations.end(asked["invocation_id"], status="completed", output={"words": counted})
    await submission.complete(batch)
    logging.info("%s has %d words", asked["invocation_id"], counted)


async def main() -> None:
    """Work on eight submissions at once until a signal comes; then end what is in hand, and stop."""
    logging.basicConfig(level=logging.INFO)
    url = os.environ.get("CAIRN_URL", "http://127.0.0.1:8000")
    async with AsyncCairn(url, key=os.environ.get("CAIRN_KEY")) as cairn:
        await cairn.run_worker(count, agent="counter", concurrency=8)


if __name__ == "__main__":
    asyncio.run(main())
