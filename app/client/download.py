"""What a download asks for, so that what is taken up again goes on with the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from app.client.errors import AttachmentIntegrityError

PARTIAL = 206


@dataclass
class Wanted:
    """What is still to come of a download: the bytes from `start` up to `end`, of the content that `tag` names."""

    start: int
    end: int | None
    tag: str | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.end is not None and self.end < self.start):
            raise ValueError("a download is from start, which is not negative, up to end, which is not before it")

    @property
    def is_complete(self) -> bool:
        """Whether nothing is to come."""
        return self.start == self.end

    def headers(self) -> dict[str, str]:
        """What asks for it: the bytes as they are, and only of the same content."""
        asked = {"Accept-Encoding": "identity"}
        if self.start or self.end is not None:
            asked["Range"] = f"bytes={self.start}-{'' if self.end is None else self.end - 1}"
            if self.tag is not None:
                asked["If-Range"] = self.tag
        return asked

    def check(self, response: httpx.Response) -> None:
        """Raise `AttachmentIntegrityError` unless the answer is what was asked for."""
        tag = response.headers.get("etag")
        if ("range" in response.request.headers) != (response.status_code == PARTIAL) or self.tag not in (None, tag):
            raise AttachmentIntegrityError("attachment_integrity", response.status_code, "These are other bytes.")
        self.tag = tag
