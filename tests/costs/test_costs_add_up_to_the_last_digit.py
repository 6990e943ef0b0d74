"""Costs of random records equal what Python's decimals make of the raw rows, for every grouping, filter and page."""

from __future__ import annotations

import base64
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.payloads import problem, send

GROUPS = ("day", "workflow", "version", "node", "model", "run", "generation")
INVOCATIONS, NODES = 250, 400
START = datetime(2026, 1, 1, 22, tzinfo=UTC)
Row = dict[str, Any]


def decimal(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def money(random_: random.Random) -> Decimal | None:
    """A cost as dear as one can be, or as cheap, or none: with 18 places each."""
    digits = random_.choice((1, 5, 18, 24, 38))
    return None if random_.random() < 0.2 else Decimal(random_.randrange(10**digits)).scaleb(-18)


@dataclass
class Record:
    """What is in the tables, row by row."""

    invocations: list[Row]
    nodes: list[Row]
    run_of_generation: dict[str, str]
    generation_of_version: dict[str, str | None]

    def run_of(self, row: Row) -> str | None:
        generation = row["generation_id"] or self.generation_of_version[row["version_id"]]
        return row["run_id"] or self.run_of_generation.get(generation)

    def generation_of(self, row: Row) -> str | None:
        inherited = self.generation_of_version[row["version_id"]]
        if row["generation_id"] is not None or inherited is None:
            return row["generation_id"]
        return inherited if row["run_id"] in (None, self.run_of_generation[inherited]) else None

    def key(self, group_by: str, row: Row) -> str | None:
        match group_by:
            case "day":
                return row["started_at"] and row["started_at"].strftime("%Y-%m-%d")
            case "run":
                return self.run_of(row)
            case "generation":
                return self.generation_of(row)
            case _:
                return row[f"{group_by}_id"]

    def sums(self, group_by: str, chosen: Iterable[Row]) -> dict[str | None, Row]:
        """What the groups must be, added up here."""
        matching = {row["id"]: row for row in chosen}
        nodes = [node for node in self.nodes if node["invocation_id"] in matching]
        groups: dict[str | None, list[Row]] = defaultdict(list)
        tokens: dict[str | None, list[Row]] = defaultdict(list)
        if group_by in ("node", "model"):
            for node in nodes:
                groups[node["node_id" if group_by == "node" else "model"]].append(node)
            tokens = groups
        else:
            for row in matching.values():
                groups[self.key(group_by, row)].append(row)
            for node in nodes:
                tokens[self.key(group_by, matching[node["invocation_id"]])].append(node)
        return {key: summed(rows, tokens.get(key, [])) for key, rows in groups.items()}


def summed(rows: list[Row], nodes: list[Row]) -> Row:
    def total(values: Iterable[Any]) -> Any:
        known = [value for value in values if value is not None]
        with localcontext(prec=100):
            return sum(known, Decimal(0)) if known else None

    return {
        "count": len(rows),
        "unpriced_count": sum(row["usd_cost"] is None for row in rows),
        "usd_cost": total(row["usd_cost"] for row in rows),
        "input_tokens": total(node["input_tokens"] for node in nodes),
        "output_tokens": total(node["output_tokens"] for node in nodes),
    }


def rows_of(seed: int) -> Record:
    """A record at random: links of every kind, named or not."""
    chance = random.Random(seed)
    run_of_generation = {f"g{n}": f"r{n % 3}" for n in range(6)}
    generation_of_version = {f"v{n}": chance.choice([None, *run_of_generation]) for n in range(8)}
    invocations = []
    for n in range(INVOCATIONS):
        status = chance.choice(("queued", "running", "completed", "failed"))
        started = None if status == "queued" else START + timedelta(minutes=chance.randrange(60 * 24 * 5))
        version = f"v{chance.randrange(8)}"
        invocations.append({
            "id": f"i{n}", "version_id": version, "workflow_id": f"w{int(version[1:]) % 3}", "status": status,
            "run_id": chance.choice((None, None, "r0", "r1", "r2")),
            "generation_id": chance.choice((None, None, *run_of_generation)), "started_at": started,
            "ended_at": started and started + timedelta(hours=1) if status in ("completed", "failed") else None,
            "usd_cost": money(chance),
        })  # fmt: skip
    nodes = [
        {
            "id": f"n{n}", "invocation_id": f"i{chance.randrange(INVOCATIONS)}", "node_id": f"n{chance.randrange(4)}",
            "model": chance.choice((None, "", "m-1", "m-2", "Z")), "usd_cost": money(chance),
            "input_tokens": chance.choice((None, chance.randrange(2**53))), "output_tokens": chance.choice((None, 7)),
        }
        for n in range(NODES)
    ]  # fmt: skip
    return Record(invocations, nodes, run_of_generation, generation_of_version)


async def store(connection: asyncpg.Connection, tenant: str, record: Record) -> None:
    for n in range(3):
        await connection.execute("INSERT INTO workflows (tenant_id, id) VALUES ($1, $2)", tenant, f"w{n}")
        await connection.execute("INSERT INTO evolution_runs (tenant_id, id) VALUES ($1, $2)", tenant, f"r{n}")
    await connection.executemany(
        "INSERT INTO generations (tenant_id, id, run_id, number) VALUES ($1, $2, $3, $4)",
        [(tenant, name, run, n) for n, (name, run) in enumerate(record.run_of_generation.items())],
    )
    await connection.executemany(
        "INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation, generation_id)"
        " VALUES ($1, $2, $3, '{}', 'raw:' || repeat('0', 64), 'init', $4)",
        [(tenant, name, f"w{int(name[1:]) % 3}", of) for name, of in record.generation_of_version.items()],
    )
    await connection.execute(
        "INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, config_hash)"
        " VALUES ($1, 'nv', 'v0', 'n', 1, '')", tenant,
    )  # fmt: skip
    for table, rows, more in (
        ("invocations", record.invocations, {"digest": b""}),
        ("node_invocations", record.nodes, {"digest": b"", "node_version_id": "nv", "status": "running"}),
    ):
        full = [{"tenant_id": tenant, **row, **more} for row in rows]
        await connection.copy_records_to_table(
            table, records=[tuple(row.values()) for row in full], columns=list(full[0])
        )


@pytest.fixture(scope="module", params=[1, 2, 3])
async def kept(service: Service, request: pytest.FixtureRequest) -> AsyncIterator[tuple[httpx.AsyncClient, Record]]:
    """A tenant's client and its record, made at random."""
    record = rows_of(request.param)
    connection = await asyncpg.connect(service.ground.database.url)
    async with await new_tenant(service) as client:
        await store(connection, client.headers["x-test-tenant"], record)
        yield client, record
    await connection.close()


async def pages(client: httpx.AsyncClient, group_by: str, **query: Any) -> tuple[list[Row], Row]:
    """Every group, page by page, and the totals, which each page repeats."""
    found: list[Row] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.get("/v1/costs", params={"group_by": group_by, "limit": 2, **query, **cursor})
        assert answer.status_code == 200, answer.text
        page = decimal(answer.text)
        assert (page["group_by"], page["currency"]) == (group_by, "USD")
        found += page["items"]
        if page["next_cursor"] is None:
            return found, page["totals"]
        cursor = {"cursor": page["next_cursor"]}


def between(row: Row) -> bool:
    return row["started_at"] is not None and START + timedelta(days=1) <= row["started_at"] < START + timedelta(days=3)


FILTERS: list[tuple[dict[str, str], Callable[[Record, Row], bool]]] = [
    ({}, lambda record, row: True),
    ({"workflow_id": "w1"}, lambda record, row: row["workflow_id"] == "w1"),
    ({"run_id": "r1", "status": "failed"}, lambda record, row: row["run_id"] == "r1" and row["status"] == "failed"),
    ({"linked_run_id": "r1"}, lambda record, row: record.run_of(row) == "r1"),
    ({"started_after": "2026-01-02T22:00:00Z", "started_before": "2026-01-04T22:00:00Z"},
     lambda record, row: between(row)),
    ({"min_usd_cost": "0.5"}, lambda record, row: row["usd_cost"] is not None and row["usd_cost"] >= Decimal("0.5")),
    ({"workflow_id": "none"}, lambda record, row: False),
]  # fmt: skip


@pytest.mark.parametrize("filters", FILTERS, ids=lambda pair: " ".join(pair[0]) or "everything")
@pytest.mark.parametrize("group_by", GROUPS)
async def test_the_groups_are_the_sums_of_the_raw_rows(
    kept: tuple[httpx.AsyncClient, Record], group_by: str, filters: tuple[dict[str, str], Any]
) -> None:
    client, record = kept
    query, matches = filters
    chosen = [row for row in record.invocations if matches(record, row)]
    wanted = record.sums(group_by, chosen)
    found, totals = await pages(client, group_by, **query)
    assert {group.pop("key"): group for group in found} == wanted
    ids = {row["id"] for row in chosen}
    nodes = [node for node in record.nodes if node["invocation_id"] in ids]
    assert totals == summed(nodes if group_by in ("node", "model") else chosen, nodes)
    if group_by not in ("node", "model"):
        summary = decimal((await client.get("/v1/invocations/summary", params=query)).text)
        assert (summary["count"], summary["usd_cost"]["sum"]) == (totals["count"], totals["usd_cost"])


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["key", "usd_cost"])
@pytest.mark.parametrize("group_by", GROUPS)
async def test_pages_hold_each_group_once_in_order_with_nulls_last(
    kept: tuple[httpx.AsyncClient, Record], group_by: str, sort: str, order: str
) -> None:
    client, _ = kept
    found, _ = await pages(client, group_by, sort=sort, order=order)
    whole = decimal((await client.get("/v1/costs", params={
        "group_by": group_by, "sort": sort, "order": order, "count": "exact"})).text)  # fmt: skip
    assert (found, whole["total"]) == (whole["items"], len(found))
    keys = [group["key"] for group in found]
    assert len(set(keys)) == len(keys)
    values = [group[sort] for group in found]
    known = [value for value in values if value is not None]
    assert values == sorted(known, reverse=order == "desc") + [None] * (len(values) - len(known))


async def test_a_run_counts_what_it_reaches_by_any_link_and_each_once(client: httpx.AsyncClient, make: Make) -> None:
    tenant, service = client.headers["x-test-tenant"], client._transport.app  # type: ignore[attr-defined]
    connection = await asyncpg.connect(service.ground.database.url)
    for run, generation in (("r", "g"), ("s", "h")):
        await connection.execute("INSERT INTO evolution_runs (tenant_id, id) VALUES ($1, $2)", tenant, run)
        await connection.execute(
            "INSERT INTO generations (tenant_id, id, run_id, number) VALUES ($1, $2, $3, 0)", tenant, generation, run
        )
    await connection.close()
    within = (await make.version(generation_id="g"))["id"]
    alone = (await make.version())["id"]
    for name, version, links in (
        ("named", alone, {"run_id": "r"}),
        ("by generation", alone, {"generation_id": "g"}),
        ("by version", within, {}),
        ("by all", within, {"run_id": "r", "generation_id": "g"}),
        ("named otherwise", within, {"run_id": "s"}),
        ("of another generation", within, {"generation_id": "h"}),
        ("of none", alone, {}),
    ):
        await make.invocation(id=name, version_id=version, usd_cost=1, **links)
    listed = (await client.get("/v1/invocations?linked_run_id=r&sort=status&count=exact")).json()
    assert {item["id"] for item in listed["items"]} == {"named", "by generation", "by version", "by all"}
    assert listed["total"] == 4
    assert (await client.get("/v1/invocations/summary?linked_run_id=r")).json()["usd_cost"]["sum"] == 4
    by_run = (await client.get("/v1/costs?group_by=run")).json()["items"]
    assert [(group["key"], group["count"]) for group in by_run] == [("r", 4), ("s", 2), (None, 1)]
    by_generation = (await client.get("/v1/costs?group_by=generation")).json()["items"]
    assert [(group["key"], group["count"]) for group in by_generation] == [("g", 3), ("h", 1), (None, 3)]


async def test_every_digit_stands_in_the_answer(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"].encode()
    for name in (b"a", b"b"):
        body = b'{"version_id":"%b","id":"%b","usd_cost":12345678901234567890.123456789012345678}' % (version, name)
        assert (await send(client, "POST", "/v1/invocations", body)).status_code == 201
    answer = await client.get("/v1/costs?group_by=workflow")
    assert answer.content.count(b'"usd_cost":24691357802469135780.246913578024691356') == 2


async def test_a_cursor_goes_on_in_its_own_grouping_and_filter_only(
    kept: tuple[httpx.AsyncClient, Record],
) -> None:
    client, _ = kept
    cursor = decimal((await client.get("/v1/costs?group_by=run&limit=1")).text)["next_cursor"]
    for query in (
        "group_by=version",
        "group_by=run&sort=usd_cost",
        "group_by=run&order=desc",
        "group_by=run&run_id=r1",
    ):
        assert problem(await client.get(f"/v1/costs?limit=1&{query}&cursor={cursor}")) == (400, "bad_cursor")
    for query in ("group_by=month", "group_by=", "sort=count", "limit=1001", "metadata=1"):
        assert problem(await client.get(f"/v1/costs?{query}")) == (422, "invalid_input")


async def test_a_damaged_cursor_is_refused_whatever_it_holds(kept: tuple[httpx.AsyncClient, Record]) -> None:
    client, _ = kept
    path = "/v1/costs?group_by=workflow&sort=usd_cost&limit=1"
    cursor = decimal((await client.get(path)).text)["next_cursor"]
    digest, *_ = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    for amount in ("", "x", "2026-01-01", "1e999999", "1.5.5"):
        damaged = base64.urlsafe_b64encode(json.dumps([digest, amount, "=w"]).encode()).decode().rstrip("=")
        assert problem(await client.get(f"{path}&cursor={damaged}")) == (400, "bad_cursor"), amount
