"""Dead letters over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.deadletters import store
from app.deadletters.errors import DeadLetterNotFound
from app.deadletters.schemas import DeadLetter, DeadLetterList, DeadLetterPage
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page

routes = Routes("dead letters")


@routes.get("/v1/dead-letters", scope="dead-letters:read", response_model=DeadLetterPage)
async def list_dead_letters(call: Call, query: DeadLetterList) -> Answer:
    """What was given up, the latest first: submissions that ran out of attempts or time, by `source`."""
    return await page(call, store.DEAD_LETTERS, query)


@routes.get(
    "/v1/dead-letters/{letter_id}",
    scope="dead-letters:read",
    response_model=DeadLetter,
    errors=(DeadLetterNotFound,),
)
async def get_dead_letter(call: Call, letter_id: str) -> Answer:
    """A dead letter."""
    return await store.get(call.reader, call.tenant_id, letter_id)
