"""Dead letters as the service writes them: of a submission that is given back with no attempt left."""

from __future__ import annotations

from typing import Any

import httpx

from tests.submissions.calls import Calls


async def given_up(client: httpx.AsyncClient, submission_id: str, **fields: Any) -> dict[str, Any]:
    """The letter of a submission, in a session of its own, that uses up its only attempt."""
    calls = Calls(client)
    await calls.running(submission_id, session=submission_id, **{"max_attempts": 1, **fields})
    await calls.done(f"{submission_id}/requeue", attempt_id="at", error="It broke.")
    (letter,) = (await client.get("/v1/dead-letters", params={"subject": submission_id})).json()["items"]
    found: dict[str, Any] = letter
    return found
