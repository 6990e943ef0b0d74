"""Runs a statement that decides again where it lost a race that it could not see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from app.db.database import Answer, Writer
from app.db.integrity import IN_THE_WAY
from app.db.sql import Statement
from app.errors import Unavailable

TRIES = 3


async def decided(writer: Writer, statement: Statement, why: Callable[[], Awaitable[None]], **arguments: Any) -> Answer:
    """The answer of the statement. Where it gives none, `why` looks for the reason and raises the refusal.

    Where it finds none, the statement lost an insert race: under READ COMMITTED it saw neither its own row nor the
    winner's, and is run again, three times in all. Raises `Unavailable` after that.
    """
    for _ in range(TRIES):
        answer = await writer.answer(statement, **arguments)
        if answer is not None:
            return answer
        await why()
    raise Unavailable(IN_THE_WAY)
