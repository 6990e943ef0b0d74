"""Ancestors and descendants: in any graph, each once, at its smallest depth, the nearest first."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.genealogy import routes
from app.genealogy.listing import relatives
from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.genealogy.lineages import CIRCLE, LADDER, LATTICE, STAR, everything, insert
from tests.payloads import problem


@pytest.fixture
async def family(make: Make) -> None:
    """Two founders, a child of both, and a grandchild of that child and one founder."""
    await make.version("w", id="a", workflow={}, dsl={"x": 1.0})
    await make.version("w", id="b")
    await make.version("w", id="c/ d", operation="crossover", parent1_id="a", parent2_id="b")
    await make.version("w", id="e", operation="crossover", parent1_id="c/ d", parent2_id="a")


def depths(answer: httpx.Response) -> list[tuple[str, int]]:
    """Id and depth of each item."""
    assert answer.status_code == 200, answer.text
    return [(item["id"], item["depth"]) for item in answer.json()["items"]]


@pytest.mark.usefixtures("family")
async def test_a_shared_ancestor_comes_once_at_its_smallest_depth(client: httpx.AsyncClient) -> None:
    assert depths(await client.get("/v1/versions/e/ancestors")) == [("a", 1), ("c/ d", 1), ("b", 2)]
    assert depths(await client.get("/v1/versions/a/descendants")) == [("c/ d", 1), ("e", 1)]
    assert depths(await client.get("/v1/versions/b/descendants")) == [("c/ d", 1), ("e", 2)]
    assert depths(await client.get("/v1/versions/c%2F%20d/ancestors")) == [("a", 1), ("b", 1)]
    assert depths(await client.get("/v1/versions/a/ancestors")) == []
    assert depths(await client.get("/v1/versions/e/ancestors?max_depth=1")) == [("a", 1), ("c/ d", 1)]
    assert depths(await client.get("/v1/versions/e/ancestors?order=desc")) == [("b", 2), ("c/ d", 1), ("a", 1)]


@pytest.mark.usefixtures("family")
async def test_an_item_is_the_version_with_its_depth(client: httpx.AsyncClient) -> None:
    item = (await client.get("/v1/versions/e/ancestors?limit=1")).json()["items"][0]
    version = (await client.get("/v1/versions/a")).json()
    assert item == {**{name: version[name] for name in version if name != "dsl"}, "depth": 1}
    shown = await client.get("/v1/versions/e/ancestors?limit=1&include=dsl")
    assert b'"dsl":{"x":1.0}' in shown.content.replace(b" ", b"")


@pytest.mark.usefixtures("family")
async def test_what_is_not_there_is_not_found_and_depths_are_bounded(
    client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    for path in ("/v1/versions/e/ancestors", "/v1/versions/a/descendants", "/v1/versions/a/common-ancestors/e"):
        assert (await client.head(path)).status_code == 200
        assert problem(await other.get(path)) == (404, "version_not_found")
        for depth in ("0", "-1", "1000001", "x", "1.0", ""):
            refused = await client.get(f"{path}?max_depth={depth}")
            assert problem(refused) == (422, "invalid_input")
            assert refused.json()["errors"][0]["pointer"] == "max_depth"
        assert (await client.get(f"{path}?max_depth=1000000")).status_code == 200
    for path in ("none/ancestors", "none/descendants", "none/common-ancestors/a", "a/common-ancestors/none"):
        assert problem(await client.get(f"/v1/versions/{path}")) == (404, "version_not_found")


async def test_a_cursor_goes_on_in_its_own_walk_only(service: Service, client: httpx.AsyncClient) -> None:
    await insert(service, client, "SELECT 'v' || n, 'v' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, 9) AS n")
    first = (await client.get("/v1/versions/v9/ancestors?limit=2")).json()
    assert [item["id"] for item in first["items"]] == ["v8", "v7"]
    cursor = first["next_cursor"]
    assert depths(await client.get(f"/v1/versions/v9/ancestors?limit=2&cursor={cursor}")) == [("v6", 3), ("v5", 4)]
    for path in ("v8/ancestors?", "v9/descendants?", "v9/ancestors?max_depth=5&", "v9/ancestors?order=desc&"):
        assert problem(await client.get(f"/v1/versions/{path}cursor={cursor}")) == (400, "bad_cursor")
    counted = (await client.get("/v1/versions/v9/ancestors?limit=2&count=exact&max_depth=7")).json()
    assert (counted["total"], len(counted["items"])) == (7, 2)


async def test_a_circle_of_parents_ends(service: Service, client: httpx.AsyncClient) -> None:
    await insert(service, client, CIRCLE, "VALUES ('child', 'x', NULL)")
    assert depths(await client.get("/v1/versions/x/ancestors")) == [("y", 1), ("z", 1)]
    assert depths(await client.get("/v1/versions/x/descendants")) == [("child", 1), ("y", 1), ("z", 2)]
    common = (await client.get("/v1/versions/x/common-ancestors/y")).json()["items"]
    assert [(item["id"], item["depth_a"], item["depth_b"]) for item in common] == [
        ("x", 0, 1), ("y", 1, 0), ("z", 1, 2),
    ]  # fmt: skip


@pytest.mark.timeout(60)
async def test_graphs_with_more_paths_than_anyone_can_walk_are_read_like_others(
    service: Service, client: httpx.AsyncClient
) -> None:
    await insert(service, client, LATTICE, STAR, LADDER)
    lattice = await everything(client, "/v1/versions/l200-0/ancestors")
    assert lattice == sorted([(f"l{d}-{k}", 200 - d) for d in range(200) for k in (0, 1)], key=lambda item: item[::-1])
    star = await everything(client, "/v1/versions/s0/descendants")
    assert star == sorted((f"s{n}", 1) for n in range(1, 20_001))
    ladder = await everything(client, "/v1/versions/c0/descendants")
    assert ladder == sorted([(f"c{n}", -(-n // 2)) for n in range(1, 20_001)], key=lambda item: item[::-1])
    assert len(await everything(client, "/v1/versions/c20000/ancestors?order=desc")) == 20_000


async def test_a_walk_that_meets_too_much_is_refused_and_not_cut_short(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert(service, client, "SELECT 'v' || n, 'v' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, 99) AS n")
    monkeypatch.setattr(routes, "ANCESTORS", relatives("ancestors", met_max=50))
    near = (await client.get("/v1/versions/v99/ancestors?limit=40")).json()
    assert len(near["items"]) == 40
    for query in (f"limit=40&cursor={near['next_cursor']}", "order=desc", "limit=1&count=exact", "limit=60"):
        refused = await client.get(f"/v1/versions/v99/ancestors?{query}")
        assert problem(refused) == (422, "walk_too_long"), query
    assert len((await client.get("/v1/versions/v99/ancestors?max_depth=49&order=desc")).json()["items"]) == 49


@pytest.mark.usefixtures("family")
async def test_common_ancestors_are_nearest_first_and_a_version_may_be_its_own(client: httpx.AsyncClient) -> None:
    def found(answer: httpx.Response) -> list[tuple[str, int, int]]:
        return [(item["id"], item["depth_a"], item["depth_b"]) for item in answer.json()["items"]]

    path = "/v1/versions/c%2F%20d/common-ancestors/e"
    whole = [("c/ d", 0, 1), ("a", 1, 1), ("b", 1, 2)]
    assert found(await client.get(path)) == whole
    assert found(await client.get(f"{path}?max_depth=1")) == whole[:2]
    assert found(await client.get(f"{path}?order=desc")) == whole[::-1]
    assert found(await client.get("/v1/versions/a/common-ancestors/a")) == [("a", 0, 0)]
    assert found(await client.get("/v1/versions/a/common-ancestors/b")) == []
    first = (await client.get(f"{path}?limit=1&include=dsl&count=exact")).json()
    assert (first["total"], "dsl" in first["items"][0]) == (3, True)
    assert found(await client.get(f"{path}?limit=1&cursor={first['next_cursor']}")) == whole[1:2]


def nearest(links: dict[str, set[str]], start: str) -> dict[str, int]:
    """Breadth-first depths, as a textbook has them."""
    found, level = {start: 0}, {start}
    while level:
        level = {to for one in level for to in links.get(one, ())} - found.keys()
        found |= dict.fromkeys(level, 1 + max(found.values()))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, str | None, str | None]]:
    """Versions with any parents but themselves: circles, diamonds, islands."""
    ids = [f"v{n}" for n in range(draw(st.integers(1, 12)))]
    rows = []
    for one in ids:
        others = st.none() | st.sampled_from([other for other in ids if other != one] or [None])
        first = draw(others)
        rows.append((one, first, None if first is None else draw(others)))
    return rows


@settings(max_examples=25, deadline=None)
@given(rows=graphs(), limit=st.integers(1, 5), max_depth=st.none() | st.integers(1, 4))
async def test_any_graph_reads_as_a_textbook_walks_it(
    service: Service, rows: list[tuple[str, str | None, str | None]], limit: int, max_depth: int | None
) -> None:
    def sql(value: str | None) -> str:
        return "NULL" if value is None else f"'{value}'"

    parents: dict[str, set[str]] = {one: {p for p in (first, second) if p} for one, first, second in rows}
    children: dict[str, set[str]] = {}
    for one, above in parents.items():
        for parent in above:
            children.setdefault(parent, set()).add(one)
    async with await new_tenant(service) as client:
        values = ", ".join(f"({sql(one)}, {sql(first)}, {sql(second)})" for one, first, second in rows)
        await insert(service, client, f"SELECT * FROM (VALUES {values}, ('', NULL, NULL)) AS v (i, p, q) WHERE i <> ''")
        for kind, links in (("ancestors", parents), ("descendants", children)):
            wanted = [(one, d) for one, d in nearest(links, "v0").items() if 0 < d <= (max_depth or d)]
            asked: dict[str, Any] = {"limit": limit} if max_depth is None else {"limit": limit, "max_depth": max_depth}
            found: list[tuple[str, int]] = []
            while True:
                page = (await client.get(f"/v1/versions/v0/{kind}", params=asked)).json()
                found += [(item["id"], item["depth"]) for item in page["items"]]
                if page["next_cursor"] is None:
                    break
                asked["cursor"] = page["next_cursor"]
            assert found == sorted(wanted, key=lambda item: item[::-1])
