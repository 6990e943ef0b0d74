"""An HTTP answer, free of the transport that brought it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, headers (names in lower case) and the exact bytes of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def etag(self) -> str | None:
        """The row's revision, to send back as `If-Match`."""
        return self.headers.get("etag")

    @property
    def replayed(self) -> bool:
        """Whether this is the kept answer to an earlier try under the same Idempotency-Key."""
        return self.headers.get("idempotency-replayed") == "true"

    @property
    def retry_after_seconds(self) -> float | None:
        """What `Retry-After` asks for, given in seconds or as a date; None when absent or unreadable."""
        asked = self.headers.get("retry-after", "").strip()
        if asked.isdigit():
            return float(asked)
        try:
            moment = parsedate_to_datetime(asked)
        except ValueError:
            return None
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
