"""Lists by glob, copies, moves, and what is cleared; and what goes with its invocation."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.http.service import Service
from app.surface import KINDS
from tests.conftest import Make
from tests.contexts.contexts import get, keys, post, put, told
from tests.payloads import codes, problem

KEYS = ("%", "a", "a%b", "a*b", "aXb", "a_b", "a\\b", "ab", "abc", "b/1", "b/2", "[ab]", "ü1", "ü22", "😀")


@pytest.fixture
async def many(client: httpx.AsyncClient) -> None:
    """Contexts of every key."""
    await gather(*(put(client, key) for key in KEYS))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", KEYS), ("", ()), ("a", ("a",)), ("a*", ("a", "a%b", "a*b", "aXb", "a_b", "a\\b", "ab", "abc")),
        ("a?b", ("a%b", "a*b", "aXb", "a_b", "a\\b")), ("a%b", ("a%b",)), ("a_b", ("a_b",)), ("a\\b", ("a\\b",)),
        ("%", ("%",)), ("*b", ("a%b", "a*b", "aXb", "a_b", "a\\b", "ab")), ("b/*", ("b/1", "b/2")),
        ("[ab]", ("[ab]",)), ("[*", ("[ab]",)), ("ü?", ("ü1",)), ("ü*", ("ü1", "ü22")), ("?", ("%", "a", "😀")),
        ("**b**c**", ("abc",)), ("😀*", ("😀",)), ("none*", ()), ("\U0010ffff*", ()), ("A*", ()),
    ],
)  # fmt: skip
async def test_a_pattern_finds_what_it_says(
    client: httpx.AsyncClient, many: None, pattern: str, found: tuple[str, ...]
) -> None:
    assert await keys(client, pattern=pattern) == sorted(found)


async def test_the_end_of_all_characters_ends_no_range_too_soon(client: httpx.AsyncClient) -> None:
    for key in ("\U0010ffff", "\U0010ffff\U0010ffffx", "a\ud7ffx", "a\ue000"):
        await put(client, key)
    assert await keys(client, pattern="\U0010ffff*") == ["\U0010ffff", "\U0010ffff\U0010ffffx"]
    assert await keys(client, pattern="a\ud7ff*") == ["a\ud7ffx"]


async def test_pages_go_on_where_they_ended_in_the_order_of_scope_node_and_key(
    client: httpx.AsyncClient, many: None
) -> None:
    await put(client, "z", scope="node", node_id="n", summary="of n")
    await put(client, "y", scope="node", node_id="m")
    seen: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while cursor is not None:
        page = (await client.get("/v1/invocations/i/contexts", params={"limit": 4, "count": "exact", **cursor})).json()
        assert (len(page["items"]) <= 4, page["total"]) == (True, len(KEYS) + 2)
        seen += page["items"]
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None  # type: ignore[assignment]
    assert [(item["scope"], item["node_id"], item["key"]) for item in seen] == [
        ("node", "m", "y"), ("node", "n", "z"), *(("workflow", None, key) for key in sorted(KEYS)),
    ]  # fmt: skip
    assert seen[1]["summary"] == "of n"
    assert await keys(client, scope="node") == ["y", "z"]
    assert await keys(client, scope="node", node_id="n") == ["z"]
    assert await keys(client, node_id="") == sorted(KEYS)
    assert await keys(client, scope="workflow", node_id="n") == []


async def test_a_copy_has_everything_but_its_times(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="j")
    expires = "2100-01-01T00:00:00.000000Z"
    stored = await put(client, content=b"abc", summary="s", metadata='{"a":1}', expires_at=expires, node_id="n")
    source = {"scope": "workflow", "node_id": "n", "key": "k"}
    copied = await post(client, "copy", source=source, target={"invocation_id": "j", "scope": "t", "node_id": None})
    assert copied.status_code == 201, copied.text
    times = ("created_at", "updated_at")
    placed = {"invocation_id": "j", "scope": "t", "node_id": None}
    assert {name: value for name, value in copied.json().items() if name not in times} == {
        **{name: value for name, value in stored.json().items() if name not in times}, **placed,
    }  # fmt: skip
    read = await get(client, scope="t", invocation="j")
    assert (read.content, told(read)["summary"], read.headers["etag"]) == (b"abc", "s", copied.headers["etag"])
    # Each goes on by itself.
    await put(client, content=b"changed", node_id="n")
    assert (await get(client, scope="t", invocation="j")).content == b"abc"


async def test_what_belongs_to_a_node_of_any_name_can_be_moved(client: httpx.AsyncClient) -> None:
    # In the query no word is one of a route.
    assert (await put(client, node_id="latest")).status_code == 201
    source = {"scope": "workflow", "node_id": "latest", "key": "k"}
    assert (await post(client, "move", source=source, target={"node_id": "summary"})).status_code == 201
    assert await keys(client, node_id="summary") == ["k"]


@pytest.mark.parametrize("call", ["copy", "move"])
async def test_what_is_at_the_target_stays_unless_it_is_to_be_replaced(client: httpx.AsyncClient, call: str) -> None:
    first = await put(client, "t", b"old", summary="old")
    await put(client, "k", b"new", summary="new")
    transfer: dict[str, Any] = {"source": {"scope": "workflow", "key": "k"}, "target": {"key": "t"}}
    refused = await post(client, call, **transfer)
    assert problem(refused) == (409, "context_conflict")
    assert {name: refused.json()[name] for name in ("invocation_id", "scope", "node_id", "key")} == {
        "invocation_id": "i", "scope": "workflow", "node_id": None, "key": "t",
    }  # fmt: skip
    assert ((await get(client, "t")).content, (await get(client, "k")).content) == (b"old", b"new")
    done = await post(client, call, **transfer, overwrite=True)
    assert (done.status_code, done.json()["summary"]) == (200, "new")
    assert done.json()["created_at"] == first.json()["created_at"]
    assert (await get(client, "t")).content == b"new"
    assert (await get(client, "k")).status_code == (200 if call == "copy" else 404)


async def test_a_move_is_seen_at_one_place(client: httpx.AsyncClient) -> None:
    await put(client, "a", b"x")
    forth = {"source": {"scope": "workflow", "key": "a"}, "target": {"key": "b"}}
    back = {"source": {"scope": "workflow", "key": "b"}, "target": {"key": "a"}}
    answers = []
    for _ in range(3):
        moves = await gather(*(post(client, "move", **forth) for _ in range(4)))
        assert codes(moves) == [201, 404, 404, 404]
        answers.append(await keys(client))
        moves = await gather(
            post(client, "move", **back), *(client.get("/v1/invocations/i/contexts") for _ in range(4))
        )
        assert moves[0].status_code == 201
        assert all(len(listed.json()["items"]) == 1 for listed in moves[1:])
    assert answers == [["b"]] * 3


async def test_opposite_moves_end_and_lose_nothing(client: httpx.AsyncClient) -> None:
    for _ in range(5):
        await put(client, "a", b"a")
        await put(client, "b", b"b")
        moves = await gather(
            *(
                post(client, "move", source={"scope": "workflow", "key": start}, target={"key": end}, overwrite=True)
                for start, end in (("a", "b"), ("b", "a"))
            )
        )
        assert {answer.status_code for answer in moves} <= {200, 201, 404}, [answer.text for answer in moves]
        assert len(await keys(client)) == 1


async def test_what_cannot_be_transferred_is_said(client: httpx.AsyncClient) -> None:
    await put(client)
    source = {"scope": "workflow", "key": "k"}
    assert problem(await post(client, "copy", source=source, target={"key": "k"})) == (422, "invalid_input")
    assert problem(await post(client, "copy", source={**source, "key": "none"}, target={"key": "t"})) == (
        404, "context_not_found",
    )  # fmt: skip
    for invocation, target in (("i", {"invocation_id": "none"}), ("none", {"key": "t"})):
        refused = await post(client, "copy", invocation, source=source, target=target)
        assert problem(refused) == (404, "invocation_not_found")
    for target in ({"key": ".."}, {"key": "x" * 256}, {"key": ""}, {"keys": "t"}):
        assert problem(await post(client, "copy", source=source, target=target)) == (422, "invalid_input")
    # A key is no id beside a route.
    assert (await post(client, "copy", source=source, target={"key": "latest"})).status_code == 201


async def test_clearing_counts_what_it_took(client: httpx.AsyncClient, many: None, make: Make) -> None:
    await make.invocation(id="j")
    await put(client, "a", invocation="j")
    await put(client, "a", node_id="n")
    await put(client, "a", scope="node", node_id="n")
    assert (await post(client, "clear", pattern="a?b")).json() == {"deleted": 5}
    assert (await post(client, "clear", scope="node")).json() == {"deleted": 1}
    assert (await post(client, "clear", node_id="n", pattern="b*")).json() == {"deleted": 0}
    assert (await post(client, "clear", node_id=None, pattern="a*")).json() == {"deleted": 3}
    assert (await post(client, "clear", scope="workflow", node_id="n")).json() == {"deleted": 1}
    assert (await post(client, "clear")).json() == {"deleted": len(KEYS) - 8}
    assert (await keys(client), await keys(client, "j")) == ([], ["a"])


async def test_clearing_goes_on_until_all_are_gone(
    client: httpx.AsyncClient, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.contexts.store.CLEARED_MAX", 4)
    assert (await post(client, "clear", pattern="?*")).json() == {"deleted": len(KEYS)}
    assert await keys(client) == []


async def test_contexts_go_with_their_invocation(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    await put(client)
    await client.post("/v1/invocations/i/end", json={"status": "completed"})
    assert (await client.delete("/v1/invocations/i")).status_code == 204
    assert problem(await get(client)) == (404, "invocation_not_found")
    await make.version((await make.workflow(id="w"))["id"], id="v")
    await make.invocation(id="j", version_id="v")
    await gather(*(put(client, f"k{number}", invocation="j") for number in range(5)))
    job = (await client.delete("/v1/workflows/w?cascade=true")).headers["location"]
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)
    assert (await client.get(job)).json()["counts"]["contexts"] == 5
    assert problem(await get(client, "k1", invocation="j")) == (404, "invocation_not_found")
