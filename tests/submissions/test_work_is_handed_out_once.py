"""claim-next: what is next, to whom, how long to wait for it, and that nobody waits on a connection."""

from __future__ import annotations

from asyncio import Task, create_task, gather
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from app.embedded import Servers
from app.http.service import Service
from tests.conftest import Make, http, new_tenant, running, settings_for
from tests.submissions.queue import NEXT, PATH, claim_next, events, ids, pass_time, rows, settle, tenant
from tests.waiting import eventually


async def waiting(service: Service, count: int) -> None:
    """Until so many calls wait for work."""

    async def there() -> bool:
        return service.ground.live.readers == count

    await eventually(there, f"{count} waiting calls")


async def test_heads_go_by_priority_then_by_sequence(client: httpx.AsyncClient, make: Make) -> None:
    for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 5)):
        await make.submission(id=name, priority=priority)
    # Within its session priority changes nothing.
    await make.submission(id="behind", session_key="session of low", priority=9)
    assert await ids(client, limit=3) == ["high", "first", "second"]
    assert await ids(client) == ["low"]
    assert await ids(client) == []


async def test_each_item_runs_under_a_new_attempt_with_its_input(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    made = [await make.submission(id=name, input={"of": name}) for name in ("a", "b")]
    found = await claim_next(client, lease_seconds=60)
    assert [{**item, "status": "queued"} for item in found] == [
        {**was, **{name: item[name] for name in ("attempt_id", "started_at", "lease_expires_at", "timeout_at",
                                                 "updated_at")},
         "attempt_count": 1, "owner_id": "w"}
        for was, item in zip(made, found, strict=True)
    ]  # fmt: skip
    assert len({item["attempt_id"] for item in found}) == 2
    assert all(item["attempt_id"].startswith("att_") for item in found)
    assert await events(service, client, "a") == {"submission.admitted": 1, "submission.claimed": 1}
    refused = await client.post(f"{PATH}/a/claim", json={"attempt_id": "t", "owner_id": "v", "lease_seconds": 1})
    assert refused.json()["attempt_id"] == found[0]["attempt_id"]


async def test_only_what_is_asked_for_is_given(client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", agent="one")
    await make.submission(id="b", agent="two")
    await make.submission(id="unready", ready=False)
    await make.submission(id="later", session_key="k", not_before="2999-01-01T00:00:00Z")
    await make.submission(id="behind it", session_key="k")
    assert await ids(other) == []
    assert await ids(client, agent="three") == []
    assert await ids(client, agent="two") == ["b"]
    assert await ids(client) == ["a"]


async def test_what_has_become_due_is_given(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", not_before="2999-01-01T00:00:00Z")
    await rows(service, "UPDATE submissions SET not_before = now() WHERE tenant_id = :t", t=tenant(client))
    assert await ids(client) == ["a"]


async def test_of_many_workers_each_gets_other_work_and_of_a_session_one_at_a_time(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    for session in range(10):
        for place in range(3):
            await make.submission(id=f"{session}-{place}", session_key=str(session))
    for place in range(3):
        found = await gather(*(ids(client, limit=2, owner_id=f"w{n}") for n in range(20)))
        assert sorted(name for each in found for name in each) == [f"{session}-{place}" for session in range(10)]
        for session in range(10):
            await settle(service, client, f"{session}-{place}", "running")


async def test_a_repeat_under_its_key_gives_the_same_items(client: httpx.AsyncClient, make: Make) -> None:
    await make.submission(id="a", input={"n": 1.0})
    body = {"owner_id": "w", "wait_seconds": 5}
    first = await client.post(NEXT, json=body, headers={"idempotency-key": "k"})
    await make.submission(id="b")
    again = await client.post(NEXT, json=body, headers={"idempotency-key": "k"})
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert b'"input":{"n":1.0}' in first.content.replace(b" ", b"")
    empty = [
        await client.post(NEXT, json={"owner_id": "w", "agent": "x"}, headers={"idempotency-key": "e"})
        for _ in range(2)
    ]
    assert [answer.content for answer in empty] == [b'{"items":[]}'] * 2
    assert "idempotency-replayed" in empty[1].headers


async def test_a_wait_ends_with_what_is_admitted_made_ready_or_freed(
    fresh: Service,
) -> None:
    async with await new_tenant(fresh) as client:
        make = Make(client)
        await make.submission(id="unready", ready=False)
        await make.submission(id="head", session_key="k")
        await make.submission(id="next", session_key="k")
        assert await ids(client) == ["head"]

        async def settled() -> Any:
            await settle(fresh, client, "head", "running")
            # What the routes tell by themselves; the function alone tells nobody, so it is found by the look.

        steps: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
            ("new", lambda: make.submission(id="new")),
            ("unready", lambda: client.post(f"{PATH}/unready/ready")),
            ("next", settled),
        ]
        for name, step in steps:
            call = create_task(ids(client, wait_seconds=60))
            await waiting(fresh, 1)
            await step()
            assert await call == [name]


async def test_nobody_holds_a_connection_or_a_key_while_waiting(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), database={"pool_min": 1, "pool_max": 2})
    async with running(settings) as service, await new_tenant(service) as client:
        make = Make(client)
        body = {"owner_id": "w", "wait_seconds": 60}
        calls = [
            create_task(client.post(NEXT, json=body, headers={"idempotency-key": key} if key else {}))
            for key in ("k", "k", *[""] * 62)
        ]
        await waiting(service, 64)
        for number in range(63):
            await make.submission(id=f"s{number}")
        answers = await gather(*calls)
        given = [[item["id"] for item in answer.json()["items"]] for answer in answers]
        assert given[0] == given[1]
        assert sorted(name for each in given[1:] for name in each) == sorted(f"s{number}" for number in range(63))


async def test_what_is_admitted_costs_one_try_and_not_one_for_each_who_waits(
    clone: Callable[[], Awaitable[str]],
) -> None:
    settings = settings_for(await clone(), http={"live_look_seconds": 60})
    async with running(settings) as service, await new_tenant(service) as client:
        tries: list[str] = []
        database = service.ground.database
        row = database.row

        async def counted(statement: Any, **arguments: Any) -> Any:
            tries.append(statement.name)
            return await row(statement, **arguments)

        calls: list[Task[list[str]]] = [create_task(ids(client, limit=1, wait_seconds=60)) for _ in range(64)]
        await waiting(service, 64)

        async def quiet() -> bool:
            return database.connections[0] == database.connections[1]

        await eventually(quiet, "quiet")
        database.row = counted  # type: ignore[method-assign]
        await Make(client).submission(id="a")
        await eventually(lambda: _any_done(calls), "a claim")

        async def next_tried() -> bool:
            return tries.count("claim_next") > 1

        # The one who got it, and the next in line, who finds nothing more.
        await eventually(next_tried, "the try of the next in line")
        await eventually(quiet, "quiet")
        assert tries.count("claim_next") == 2
        service.end_waits()
        assert sorted(await gather(*calls)) == [[]] * 63 + [["a"]]


async def _any_done(calls: list[Task[list[str]]]) -> bool:
    return any(call.done() for call in calls)


async def test_b19_who_waits_at_the_end_is_answered_at_once(clone: Callable[[], Awaitable[str]]) -> None:
    async with running(settings_for(await clone())) as service, await new_tenant(service) as client:
        call = create_task(ids(client, wait_seconds=60))
        await waiting(service, 1)
        service.end_waits()
        assert await call == []


async def test_who_is_gone_gets_no_work(clone: Callable[[], Awaitable[str]]) -> None:
    async with running(settings_for(await clone())) as service, await new_tenant(service) as client:
        gone = create_task(ids(client, wait_seconds=60))
        await waiting(service, 1)
        gone.cancel()
        await waiting(service, 0)
        await Make(client).submission(id="a")
        assert await ids(client) == ["a"]


async def test_renewals_say_what_they_renewed_and_move_no_etag(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    for name in ("a", "b", "c", "d"):
        await make.submission(id=name)
    await ids(client, limit=2, lease_seconds=1)
    await client.post(f"{PATH}/c/claim", json={"attempt_id": "t", "owner_id": "v", "lease_seconds": 1})
    before = {name: await client.get(f"{PATH}/{name}") for name in ("a", "b", "c", "d")}
    await pass_time(service, client, "lease_lapses_at")
    renewed = await client.post(
        f"{PATH}/renew-leases",
        json={"owner_id": "w", "submission_ids": ["d", "b", "c", "x", "a", "b"], "lease_seconds": 600},
    )
    assert (renewed.status_code, renewed.json()) == (200, {"renewed": ["b", "a"], "skipped": ["d", "c", "x"]})
    for name, was in before.items():
        now = await client.get(f"{PATH}/{name}")
        assert now.headers["etag"] == was.headers["etag"]
        assert now.json()["updated_at"] == was.json()["updated_at"]
        moved = now.json()["lease_expires_at"] != was.json()["lease_expires_at"]
        assert moved == (name in "ab")
    told = await client.post(
        f"{PATH}/renew-leases",
        json={"owner_id": "v", "submission_ids": ["c"], "lease_seconds": 30, "client_time": "2031-01-01T00:00:00Z"},
    )
    assert told.json()["renewed"] == ["c"]
    assert (await client.get(f"{PATH}/c")).json()["lease_expires_at"] == "2031-01-01T00:00:30.000000Z"
    empty = await client.post(f"{PATH}/renew-leases", json={"owner_id": "v", "submission_ids": [], "lease_seconds": 30})
    assert empty.json() == {"renewed": [], "skipped": []}


async def test_two_processes_share_the_work(clone: Callable[[], Awaitable[str]]) -> None:
    """Without NATS the other process finds it by its look."""
    url = await clone()
    async with (
        running(settings_for(url)) as one,
        running(settings_for(url)) as two,
        await new_tenant(one) as client,
        http(two, **dict(client.headers)) as beside,
    ):
        call = create_task(ids(beside, wait_seconds=60))
        await waiting(two, 1)
        await Make(client).submission(id="a")
        assert await call == ["a"]


async def test_a_hint_wakes_who_waits_on_another_process(clone: Callable[[], Awaitable[str]], servers: Servers) -> None:
    url = await clone()
    groups: dict[str, Any] = {"nats": {"url": servers.nats_url}, "http": {"live_look_seconds": 60}}
    async with (
        running(settings_for(url, **groups)) as one,
        running(settings_for(url, **groups)) as two,
        await new_tenant(one) as client,
        http(two, **dict(client.headers)) as beside,
    ):
        calls = [create_task(ids(beside, limit=1, wait_seconds=60, agent=agent)) for agent in ("a", None)]
        await waiting(two, 2)
        for name in ("first", "second"):
            await Make(client).submission(id=name)
        assert sorted(await gather(*calls)) == [["first"], ["second"]]
