"""The calls of a submission's life, short enough to tell a story with."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx


class Calls:
    """A client whose calls are named after what they do."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, path: str, _headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        """Any call about submissions."""
        return await self.client.post(f"/v1/submissions/{path}", json=body, headers=_headers or {})

    async def admit(self, id: str, session: str = "s", **fields: Any) -> dict[str, Any]:
        """A submission, in the session `s` unless told otherwise."""
        body = {"id": id, "session_key": session, "kind": "direct", "agent": "a", "instance_id": "i", "input": {"n": 1}}
        answer = await self.client.post("/v1/submissions", json={**body, **fields})
        assert answer.status_code == 201, answer.text
        shown: dict[str, Any] = answer.json()["submission"]
        return shown

    async def claim(self, id: str, attempt_id: str = "at", **fields: Any) -> dict[str, Any]:
        """A claim that succeeds."""
        path = f"{quote(id, safe='')}/claim"
        return await self.done(path, attempt_id=attempt_id, owner_id="o", **{"lease_seconds": 60, **fields})

    async def running(self, id: str, attempt_id: str = "at", **fields: Any) -> dict[str, Any]:
        """A submission that is admitted and claimed."""
        await self.admit(id, **fields)
        return await self.claim(id, attempt_id)

    async def done(self, path: str, **body: Any) -> dict[str, Any]:
        """What a call answers that succeeds."""
        answer = await self.post(path, **body)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def refused(self, path: str, **body: Any) -> tuple[int, str, str | None]:
        """Status, code and `current_status` of a call that is refused."""
        answer = await self.post(path, **body)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = answer.json()
        return answer.status_code, problem["code"], problem.get("current_status")

    async def shown(self, id: str) -> dict[str, Any]:
        """The submission as it now is, without its input."""
        answer = await self.client.get(f"/v1/submissions/{id}?include=")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def record(name: str = "r", outcome: str = "completed", **more: Any) -> dict[str, Any]:
    """A record that settles."""
    return {"v": 1, "id": name, "type": "submission_settled", "outcome": outcome, **more}
