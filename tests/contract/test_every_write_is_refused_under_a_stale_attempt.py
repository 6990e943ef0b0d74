"""B11: a walk over every route that changes something, under an attempt that owns nothing: 409, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.settings import Settings
from app.surface import endpoints
from tests.contract.script import SCRIPT, Line
from tests.contract.test_no_tenant_sees_another import World, world
from tests.digests import digests

ROUTES = endpoints(Settings(_env_file=None))
STALE = {"submission-attempt": "sub;lost"}


@pytest.fixture(scope="module")
async def walked(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[World]:
    async with world(await kept_clone()) as made:
        yield made


def writes(line: Line) -> bool:
    """Whether the route changes anything, and is not one that decides about attempts by rules of its own."""
    method, _, path = line.route.partition(" ")
    (found,) = (one for one in ROUTES if one.path == path and method in one.methods)
    return not found.reads and not found.open_to_all and not found.fences_itself


@pytest.mark.parametrize("line", [*filter(writes, SCRIPT)], ids=lambda line: line.route)
async def test_nothing_is_written(walked: World, line: Line) -> None:
    stood = await walked.digest()
    async with walked.operator() as operator:
        client = operator if line.sees == "operator" else walked.owner
        client.headers.update(STALE)
        try:
            answer = await line.call(client, walked.ids)
        finally:
            client.headers.pop("submission-attempt")
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_attempt"), f"{line.route}: {answer.text}"
    assert (answer.json()["submission_id"], answer.json()["attempt_id"]) == ("sub", None)
    assert await digests(walked.connection, walked.tenant_id) == stood
