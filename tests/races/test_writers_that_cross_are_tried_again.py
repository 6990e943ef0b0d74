"""B14: deadlocks and serialization failures are the service's to try again, never the caller's error."""

from __future__ import annotations

from asyncio import gather
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import httpx
import pytest

from tests.conftest import Make, new_tenant, running, settings_for

# Whoever changes a workflow lingers, so that two that cross always meet.
LINGER = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END $$;
CREATE TRIGGER linger AFTER UPDATE ON workflows FOR EACH ROW EXECUTE FUNCTION linger();
"""


@pytest.fixture
async def crossing(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[httpx.AsyncClient]:
    url = await clone()
    connection = await asyncpg.connect(url)
    await connection.execute(LINGER)
    # Deadlocks are looked for at once here; in production that is after a second of waiting.
    await connection.execute(f"ALTER DATABASE \"{url.rsplit('/', 1)[1]}\" SET deadlock_timeout = '20ms'")
    await connection.close()
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        yield client


def changes(*names: str, word: str) -> dict[str, object]:
    return {
        "operations": [
            {"method": "PATCH", "path": f"/v1/workflows/{name}", "body": {"description": word}} for name in names
        ]
    }


async def test_b14_batches_that_touch_the_same_rows_in_opposite_order_both_happen(crossing: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await Make(crossing).workflow(id=name)
    for turn in range(8):
        answers = await gather(
            crossing.post("/v1/batch", json=changes("a", "b", word=f"{turn} there")),
            crossing.post("/v1/batch", json=changes("b", "a", word=f"{turn} back")),
        )
        assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
        shown = [(await crossing.get(f"/v1/workflows/{name}")).json()["description"] for name in ("a", "b")]
        assert shown[0] == shown[1], "one batch after the other, not one through the other"
    assert (await crossing.get("/v1/workflows/a")).headers["etag"] == '"17"'


async def test_b14_many_that_cross_end_well_or_are_told_to_come_again(crossing: httpx.AsyncClient) -> None:
    names = ["a", "b", "c"]
    for name in names:
        await Make(crossing).workflow(id=name)
    answers = await gather(
        *(crossing.post("/v1/batch", json=changes(*names[turn % 3 :], *names[: turn % 3], word="w"))
          for turn in range(9))
    )  # fmt: skip
    for answer in answers:
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 503:
            assert answer.headers["retry-after"]
    done = sum(answer.status_code == 200 for answer in answers)
    assert (await crossing.get("/v1/workflows/b")).headers["etag"] == f'"{done + 1}"'


async def test_b14_a_retry_under_a_key_keeps_one_answer(crossing: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await Make(crossing).workflow(id=name)
    sent = [(changes("a", "b", word="there"), {"idempotency-key": "1"}),
            (changes("b", "a", word="back"), {"idempotency-key": "2"})]  # fmt: skip
    first = await gather(*(crossing.post("/v1/batch", json=body, headers=headers) for body, headers in sent))
    again = await gather(*(crossing.post("/v1/batch", json=body, headers=headers) for body, headers in sent))
    assert [answer.status_code for answer in first] == [200, 200]
    assert [answer.content for answer in again] == [answer.content for answer in first]
    assert (await crossing.get("/v1/workflows/a")).headers["etag"] == '"3"'


async def test_b14_messages_recorded_in_opposite_order_do_not_wait_for_each_other(crossing: httpx.AsyncClient) -> None:
    path = f"/v1/invocations/{(await Make(crossing).invocation())['id']}/messages"
    items = [{"id": f"m{number}", "role": "x", "seq": number} for number in range(100)]
    for _ in range(5):
        answers = await gather(
            *(crossing.post(path, json={"items": order}) for order in (items, items[::-1], items[50:] + items[:50]))
        )
        assert {answer.status_code for answer in answers} <= {200, 201}, [answer.text[:200] for answer in answers]
