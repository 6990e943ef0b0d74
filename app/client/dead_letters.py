"""Calls about work that was given up."""

from __future__ import annotations

from typing import TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.record import Record
from app.client.submission_models import DeadLetter

M = TypeVar("M")


class ReplayedLetter(Record):
    """A letter that went, because what it told of is tried again, as `replayed_as`."""

    id: str
    source: str
    subject: str
    replayed_as: str


class RefusedLetter(Record):
    """A letter that stays, and why."""

    id: str
    source: str
    subject: str
    code: str
    detail: str


class LetterReplay(Record):
    """What replaying several letters came to; `["items"]` has what was replayed."""

    replayed: int
    refused: int
    refusals: list[RefusedLetter]
    next_cursor: str | None


class LetterPurge(Record):
    """How many letters were removed, and whether there are more."""

    deleted: int
    more: bool


class DeadLetterConditions(TypedDict, total=False):
    """Letters of a `source`, submission or webhook, about a `subject`, for a `reason`, within a time."""

    source: str
    subject: str
    reason: str
    webhook_id: str
    created_after: Instant
    created_before: Instant


class DeadLetterFilter(DeadLetterConditions, Paging, total=False):
    """Which dead letters to list."""


class DeadLetterChoice(DeadLetterConditions, total=False):
    """Which dead letters to replay or purge; `all=True` where no condition is given."""

    all: bool
    limit: int


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
