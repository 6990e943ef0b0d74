"""B27: a walk over every route that changes something, under a token that holds no lease: 409, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.settings import Settings
from app.surface import endpoints
from tests.contract.script import SCRIPT, Line
from tests.contract.test_no_tenant_sees_another import World, world
from tests.digests import digests

ROUTES = endpoints(Settings(_env_file=None))
STALE = {"lease": "lost;7"}


@pytest.fixture(scope="module")
async def walked(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[World]:
    async with world(await kept_clone()) as made:
        yield made


def writes(line: Line) -> bool:
    """Whether the route changes anything."""
    method, _, path = line.route.partition(" ")
    (found,) = (one for one in ROUTES if one.path == path and method in one.methods)
    return not found.reads and not found.open_to_all


def with_a_write(line: Line) -> Line:
    """The line, with a body that writes where the script's only reads."""
    if line.route != "POST /v1/batch":
        return line
    return Line(line.route, line.sees, {"operations": [{"method": "PUT", "path": "/v1/workflows/new", "body": {}}]})


@pytest.mark.parametrize("line", [*filter(writes, SCRIPT)], ids=lambda line: line.route)
async def test_nothing_is_written(walked: World, line: Line) -> None:
    stood = await walked.digest()
    async with walked.operator() as operator:
        client = operator if line.sees == "operator" else walked.owner
        operator.headers["x-tenant-id"] = walked.tenant_id
        client.headers.update(STALE)
        try:
            answer = await with_a_write(line).call(client, walked.ids)
        finally:
            client.headers.pop("lease")
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_lease"), f"{line.route}: {answer.text}"
    assert (answer.json()["name"], answer.json()["current_token"], answer.json()["holder"]) == ("lost", None, None)
    assert await digests(walked.connection, walked.tenant_id) == stood
