"""A request as every side of a comparison sends it: the load generator, and the recording of its statements.

Marks stand for what differs between requests: `@@` is a text that no other round of requests has, `~~` the number of
the client, `##` (once, in a body) the number of the round, from ten million on, and `<<id>>` what the answer before
had as its first `id`. All have a fixed width, so a request is cut once and never measured again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNIQUE, CLIENT = "@@", "~~"
ROUND, ROUND_FIRST = "##", 10_000_001
UNIQUE_WIDTH, CLIENT_WIDTH, ROUND_WIDTH = 14, 2, 8
# The ids that the scenarios give, and those that the service makes of an attempt: `att_` and 32 digits.
CAPTURED = {"<<id>>": 12, "<<attempt_id>>": 36}


@dataclass(frozen=True)
class Request:
    """One HTTP request; its marks are replaced as it is sent."""

    method: str
    path: str
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def with_key(self, name: str) -> Request:
        """The same with an Idempotency-Key that no other request has."""
        key = {"Idempotency-Key": f"{name}-{UNIQUE}"}
        return Request(self.method, self.path, self.body, {**self.headers, **key})

    def wire(self, host: str, bearer: str) -> str:
        """The request as it is written to the connection, marks included."""
        headers = {"Host": host, "Authorization": f"Bearer {bearer}", **self.headers}
        if self.body:
            headers |= {"Content-Type": "application/json", "Content-Length": str(self._length())}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines) + "\r\n\r\n" + self.body

    def _length(self) -> int:
        widths = {UNIQUE: UNIQUE_WIDTH, CLIENT: CLIENT_WIDTH, ROUND: ROUND_WIDTH, **CAPTURED}
        more = sum(self.body.count(mark) * (width - len(mark)) for mark, width in widths.items())
        return len(self.body.encode()) + more
