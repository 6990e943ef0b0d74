"""Calls about the formats of clients' data, and about work that was given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.submission_models import DeadLetter, FormatStamp, LetterPurge, LetterReplay, ReplayedLetter

M = TypeVar("M")


class DeadLetterFilter(Paging, total=False):
    """Which dead letters to list: of a `source`, submission or webhook, about a `subject`, for a `reason`."""

    source: str
    subject: str
    reason: str
    webhook_id: str
    created_after: Instant
    created_before: Instant


class DeadLetterChoice(TypedDict, total=False):
    """Which dead letters to replay or purge; `all=True` where no condition is given."""

    source: str
    subject: str
    reason: str
    webhook_id: str
    created_after: Instant
    created_before: Instant
    all: bool
    limit: int


class FormatStamps(Resource[M]):
    """Which format a client's data has: a value under a name."""

    @endpoint
    def open(self, name: str, value: str, *, adopt: Mapping[str, Sequence[str]] | None = None) -> Call[FormatStamp]:
        """Open the store in a format: stamp an empty one, adopt an older name's value, or raise `ConflictError`.

        The codes are `format_unsupported` (with both values) and `unversioned_store` (data without a stamp).
        """
        body: dict[str, Any] = {"name": name, "value": value}
        if adopt is not None:
            body["adopt"] = {old: [*values] for old, values in adopt.items()}
        return Call("POST", path("format-stamps", "open"), one(FormatStamp), body=dump(body))

    @endpoint
    def put(self, name: str, value: str) -> Call[FormatStamp]:
        """Set a stamp."""
        return Call("PUT", path("format-stamps", name), one(FormatStamp), body=dump({"value": value}))

    @endpoint
    def get(self, name: str) -> Call[FormatStamp]:
        """One stamp."""
        return Call("GET", path("format-stamps", name), one(FormatStamp))

    @listing
    def list(self, **filters: Unpack[Paging]) -> Call[Page[FormatStamp]]:
        """The stamps by name."""
        return Call("GET", path("format-stamps"), page_of(FormatStamp), query(filters))

    @endpoint
    def delete(self, name: str) -> Call[None]:
        """Remove a stamp."""
        return Call("DELETE", path("format-stamps", name), nothing)


class DeadLetters(Resource[M]):
    """Work that nobody will try again by itself."""

    @listing
    def list(self, **filters: Unpack[DeadLetterFilter]) -> Call[Page[DeadLetter]]:
        """What was given up, the newest first."""
        return Call("GET", path("dead-letters"), page_of(DeadLetter), query(filters))

    @endpoint
    def get(self, letter_id: str) -> Call[DeadLetter]:
        """One dead letter."""
        return Call("GET", path("dead-letters", letter_id), one(DeadLetter))

    @endpoint
    def delete(self, letter_id: str) -> Call[None]:
        """Remove a letter; what it tells of stays as it is."""
        return Call("DELETE", path("dead-letters", letter_id), nothing)

    @endpoint
    def purge(self, **which: Unpack[DeadLetterChoice]) -> Call[LetterPurge]:
        """Remove letters, the oldest first, at most `limit`; call again while there are `more`."""
        return Call("DELETE", path("dead-letters"), one(LetterPurge), query(which))

    @endpoint
    def replay(self, letter_id: str) -> Call[ReplayedLetter]:
        """Try again what a letter tells of; the letter goes."""
        return Call("POST", path("dead-letters", letter_id, "replay"), one(ReplayedLetter))

    @endpoint
    def replay_all(self, *, cursor: str | None = None, **which: Unpack[DeadLetterChoice]) -> Call[LetterReplay]:
        """Try again what the next letters that are chosen tell of; go on with `next_cursor` until it is None."""
        body = {**which} if cursor is None else {**which, "cursor": cursor}
        return Call("POST", path("dead-letters", "replay"), one(LetterReplay), body=dump(body))
