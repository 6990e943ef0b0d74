"""Many calls in one transaction: gathered here, sent as one `POST /v1/batch`."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

from app.client.call import JSON, Call, Page, path
from app.client.exact import Json, dump, elements, members
from app.client.record import Record
from app.client.reply import Reply

T = TypeVar("T")
R = TypeVar("R", bound=Record)


class Pending(Generic[T]):
    """The result of an operation whose batch may not have been sent yet."""

    def __init__(self, call: Call[T]) -> None:
        self._call = call
        self._reply: Reply | None = None

    def settle(self, reply: Reply) -> None:
        """Take the operation's own answer out of the batch's."""
        self._reply = reply

    def result(self) -> T:
        """What the operation returned. Raises `RuntimeError` before its batch was sent (or when it failed)."""
        if self._reply is None:
            raise RuntimeError("this operation's batch has not been sent, or nothing of it was done")
        return self._call.result(self._reply)


class Recorder:
    """Keeps calls instead of sending them, in order."""

    def __init__(self) -> None:
        self._calls: list[Call[Any]] = []
        self._pending: list[Pending[Any]] = []

    def perform(self, call: Call[T]) -> Pending[T]:
        """Add one operation. Raises `ValueError` for raw bytes, which a batch cannot carry."""
        if call.content_type != JSON:
            raise ValueError(f"{call.method} {call.path} sends raw bytes, which a batch cannot carry")
        pending = Pending(call)
        self._calls.append(call)
        self._pending.append(pending)
        return pending

    def listing(self, call: Call[Page[R]]) -> Pending[Page[R]]:
        """Add one page of a list."""
        return self.perform(call)

    def call(self) -> Call[None]:
        """The one call that does everything recorded, all or nothing, and settles every `Pending`."""
        operations = []
        for call in self._calls:
            operation: dict[str, Any] = {"method": call.method, "path": call.target}
            if call.headers:
                operation["headers"] = dict(call.headers)
            if call.body is not None:
                operation["body"] = Json.trusted(call.body)
            operations.append(operation)
        return Call("POST", path("batch"), self._settle, body=dump({"operations": operations}))

    def _settle(self, reply: Reply) -> None:
        results = elements(members(reply.body)["results"])
        for pending, result in zip(self._pending, results, strict=True):
            parts = members(result)
            headers = {name.lower(): text for name, text in json.loads(parts.get("headers", b"{}")).items()}
            pending.settle(Reply(json.loads(parts["status"]), headers, parts.get("body", b"null")))
