"""Dead letters over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.db.database import Answer
from app.deadletters import store
from app.deadletters.errors import DeadLetterNotFound, FilterRequired
from app.deadletters.schemas import (
    DeadLetter,
    DeadLetterList,
    DeadLetterPage,
    DeadLetterReplay,
    Purge,
    Purged,
    Replayed,
    ReplayedLetter,
)
from app.deadletters.store import Replayer
from app.errors import BadCursor, Conflict
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page

# What is no filter of the letters themselves.
_BESIDE = frozenset({"all", "limit", "cursor"})


def routes_of(replayers: Mapping[str, Replayer]) -> Routes:
    """The routes of dead letters, whose sources try again what was given up."""
    routes = Routes("dead letters")

    @routes.get("/v1/dead-letters", scope="dead-letters:read", response_model=DeadLetterPage)
    async def list_dead_letters(call: Call, query: DeadLetterList) -> Answer:
        """What was given up, the latest first: submissions that ran out of attempts or time, and deliveries."""
        return await page(call, store.DEAD_LETTERS, query)

    @routes.delete("/v1/dead-letters", scope="dead-letters:write", response_model=Purged, errors=(FilterRequired,))
    async def purge_dead_letters(call: Call, query: Purge) -> Answer:
        """Remove the letters that match, the oldest first, at most `limit`; call again while there are `more`.

        What they tell of stays as it is. Without any filter `all=true` is required.
        """
        filters = _filters(query.model_dump(exclude_unset=True))
        return await store.purge(call.writer, call.tenant_id, filters, query.limit)

    @routes.post(
        "/v1/dead-letters/replay",
        scope="dead-letters:write",
        transactional=True,
        response_model=Replayed,
        errors=(BadCursor, FilterRequired),
    )
    async def replay_dead_letters(call: Call, body: DeadLetterReplay) -> Answer:
        """Try again what the letters that match tell of, the oldest first, at most `limit` in one call.

        Each letter is replayed once, whoever else does the same. One that is refused stays: `refusals` says why, and
        `next_cursor` leads past it. Call again with `next_cursor` until it is null. Without any filter `all: true` is
        required.
        """
        filters = _filters(body.given())
        answer, moved = await store.replay_page(
            call.writer, call.tenant_id, filters, body.limit, body.cursor, replayers
        )
        call.moved += moved
        return answer

    @routes.get(
        "/v1/dead-letters/{letter_id}",
        scope="dead-letters:read",
        response_model=DeadLetter,
        errors=(DeadLetterNotFound,),
    )
    async def get_dead_letter(call: Call, letter_id: str) -> Answer:
        """A dead letter."""
        return await store.get(call.reader, call.tenant_id, letter_id)

    @routes.delete(
        "/v1/dead-letters/{letter_id}",
        scope="dead-letters:write",
        status_code=204,
        errors=(DeadLetterNotFound,),
    )
    async def delete_dead_letter(call: Call, letter_id: str) -> Answer:
        """Remove a letter. What it tells of stays as it is."""
        return await store.delete(call.writer, call.tenant_id, letter_id)

    @routes.post(
        "/v1/dead-letters/{letter_id}/replay",
        scope="dead-letters:write",
        transactional=True,
        response_model=ReplayedLetter,
        errors=(DeadLetterNotFound, Conflict),
    )
    async def replay_dead_letter(call: Call, letter_id: str) -> Answer:
        """Try again what a letter tells of; the letter goes.

        A delivery begins a new round of attempts, with the same `webhook-id` and body. A submission is admitted as a
        new one, whose id is `replayed_as`: the same session, input, priority and budget; the old one stays settled.
        409 where it cannot be: the webhook is gone or disabled, the submission was removed.
        """
        answer, moved = await store.replay(call.writer, call.tenant_id, letter_id, replayers)
        call.moved += moved
        return answer

    return routes


def _filters(given: dict[str, Any]) -> dict[str, Any]:
    """The filters among what was given. Raises `FilterRequired` where there are none and not all are asked for."""
    filters = {name: value for name, value in given.items() if name not in _BESIDE and value is not None}
    if not filters and given.get("all") is not True:
        raise FilterRequired(
            "Name a filter, or ask for all.", errors=[{"pointer": "/all", "message": "is required without a filter"}]
        )
    return filters
