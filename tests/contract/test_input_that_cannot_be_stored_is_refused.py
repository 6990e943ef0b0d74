"""B01 to B06: input that parses but cannot be stored, numbers, instants, shapes: told as such, nothing stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import send

WORDS_OF_SQL = ("select", "insert", "asyncpg", "postgres", "traceback", "/app/", "relation")


def refused(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    """A refusal: the status is one of these, the body a problem in valid JSON, without SQL, stack or path."""
    assert answer.status_code in (statuses or (400, 422)), answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content, parse_constant=_no_constant)
    assert body["status"] == answer.status_code
    words = json.dumps([body["detail"], body.get("errors"), body["title"]]).lower()
    assert not any(word in words for word in WORDS_OF_SQL), words
    return body


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
async def invocation(client: httpx.AsyncClient, make: Make) -> AsyncIterator[str]:
    """The path of an invocation; afterwards the service still answers, and no workflow but its own is there."""
    made = await make.invocation(id="i")
    yield f"/v1/invocations/{made['id']}"
    stored = await client.get("/v1/workflows?count=exact")
    assert (stored.status_code, stored.json()["total"]) == (200, 1)


BAD_TEXT = {"nul": b'"a\\u0000b"', "nul alone": b'"\\u0000"', "high": b'"x\\ud83d"', "low": b'"\\ude00"'}


@pytest.mark.parametrize("text", BAD_TEXT.values(), ids=BAD_TEXT)
@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "/v1/workflows", b'{"id":%b}', "/id"),
        ("POST", "/v1/workflows", b'{"name":%b}', "/name"),
        ("PUT", "/v1/workflows/w", b'{"description":%b}', "/description"),
        ("POST", "/v1/workflows", b'{"metadata":{"a":[{"b":%b}]}}', "/metadata"),
        ("POST", "/v1/workflows", b'{"metadata":{%b:1}}', "/metadata"),
        ("POST", "/v1/workflows/w/versions", b'{"dsl":1,"commit_message":%b}', "/commit_message"),
        ("POST", "/v1/workflows/w/versions", b'{"dsl":1,"workflow":{"name":%b}}', "/workflow/name"),
        ("POST", "/v1/workflows/w/versions", b'{"dsl":1,"nodes":[{"node_id":"n","tools":[%b]}]}', "/nodes/0/tools/0"),
        ("POST", "/v1/workflows/w/versions", b'{"dsl":1,"knowledge":[%b]}', "/knowledge"),
        ("PATCH", "/v1/invocations/i", b'{"feedback":%b}', "/feedback"),
        ("PATCH", "/v1/invocations/i", b'{"error":%b}', "/error"),
        ("POST", "/v1/invocations/i/messages", b'{"items":[{"role":"r"},{"role":%b}]}', "/items/1/role"),
        ("POST", "/v1/invocations/i/messages", b'{"role":"r","from_node_id":%b}', "/from_node_id"),
        ("POST", "/v1/invocations/i/nodes", b'{"node_id":"n","files":[%b]}', "/files/0"),
        ("POST", "/v1/invocations/i/nodes", b'{"node_id":"n","error":{"message":%b}}', "/error/message"),
        ("POST", "/v1/api-keys", b'{"name":%b,"scopes":["admin"]}', "/name"),
        ("POST", "/v1/datasets", b'{"name":%b}', "/name"),
        ("POST", "/v1/datasets/d/records", b'{"items":[{"rubric":[%b]}]}', "/items/0/rubric"),
        ("POST", "/v1/dataset-records/lookup", b'{"ids":["a",%b]}', "/ids/1"),
        ("POST", "/v1/evaluators", b'{"name":"n","config":{"a":%b}}', "/config"),
        ("PUT", "/v1/conversations", b'{"path":%b,"identity":{"agent_name":"a","instance_id":"i"}}', "/path"),
        (
            "PUT",
            "/v1/conversations",
            b'{"path":"p","identity":{"agent_name":"a","instance_id":%b}}',
            "/identity/instance_id",
        ),
        ("POST", "/v1/conversations/acquire", b'{"path":"p","producer_id":%b}', "/producer_id"),
        ("PATCH", "/v1/sessions/s", b'{"owner_id":%b}', "/owner_id"),
        ("PUT", "/v1/format-stamps/s", b'{"value":%b}', "/value"),
        ("POST", "/v1/format-stamps/open", b'{"name":%b,"value":"1"}', "/name"),
        ("POST", "/v1/format-stamps/open", b'{"name":"n","value":"1","adopt":{"o":[%b]}}', "/adopt/o/0"),
        ("POST", "/v1/invocations/i/contexts/clear", b'{"pattern":%b}', "/pattern"),
        (
            "POST",
            "/v1/invocations/i/contexts/copy",
            b'{"source":{"scope":"s","key":"k"},"target":{"key":%b}}',
            "/target/key",
        ),
        ("POST", "/v1/invocations/i/checkpoints", b'{"node_id":%b,"state":1}', "/node_id"),
        ("POST", "/v1/mcp/servers/m/versions", b'{"version":%b}', "/version"),
        ("PUT", "/v1/mcp/users/u/configs", b'{"items":[{"name":%b}]}', "/items/0/name"),
    ],
)
async def test_b01_text_that_no_column_can_hold_is_refused_by_name(
    client: httpx.AsyncClient, invocation: str, method: str, path: str, body: bytes, pointer: str, text: bytes
) -> None:
    found = refused(await send(client, method, path, body % text), 422)
    assert [error["pointer"] for error in found["errors"]] == [pointer]


@pytest.mark.parametrize("segment", ["%00", "a%00b", "%FF", "%ED%A0%80", "%2e%2e", "x" * 256, "%E2%82%AC" * 86])
async def test_b01_no_route_takes_an_id_that_cannot_be_one(
    service: Service, client: httpx.AsyncClient, segment: str
) -> None:
    for endpoint in service.endpoints:
        path = endpoint.path
        for name in endpoint.path_names:
            path = path.replace("{" + name + "}", segment)
        if path == endpoint.path:
            continue
        for method in endpoint.methods or ():
            # httpx would tidy the path; the raw one goes out as it is.
            url = httpx.URL("http://cairn.test").copy_with(raw_path=path.encode())
            answer = await client.request(method, url, json={} if method != "GET" else None)
            refused(answer, 400, 403, 404, 422)


@pytest.mark.parametrize(
    "query",
    ["cursor=%00", "cursor=a%00", "owner_id=%00", "q=%00", "%00=1", "owner_id=%FF", "owner_id=%ED%A0%80",
     "cursor=" + "x" * 5000, "&".join(["owner_id=a"] * 300), "owner_id=a&owner_id=b", "unknown=1", "count=all"],
)  # fmt: skip
async def test_b01_queries_that_cannot_be_meant_are_refused(client: httpx.AsyncClient, query: str) -> None:
    url = httpx.URL("http://cairn.test").copy_with(raw_path=b"/v1/workflows?" + query.encode())
    refused(await client.get(url))


@pytest.mark.parametrize("key", [b"a\x00b", b"\x00", b" ", b"a b", "é".encode(), b"x" * 256, b"\xff", b""])
async def test_b01_idempotency_keys_that_cannot_be_kept_are_refused(client: httpx.AsyncClient, key: bytes) -> None:
    answer = await client.request("PUT", "/v1/workflows/w", content=b"{}", headers={b"idempotency-key": key})
    refused(answer, 422)
    assert (await client.get("/v1/workflows/w")).status_code == 404


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"+1", b"01", b".5", b"1.", b"0x1", b"1e"])
async def test_b02_what_is_no_json_number_is_malformed_wherever_it_stands(
    client: httpx.AsyncClient, invocation: str, number: bytes
) -> None:
    for path, body in (
        (f"{invocation}/end", b'{"status":"completed","fitness_score":%b}'),
        (f"{invocation}/end", b'{"status":"completed","output":{"x":[%b]}}'),
        (f"{invocation}/end", b'{"status":"completed","metadata":{"x":%b}}'),
        (f"{invocation}/nodes", b'{"node_id":"n","input_tokens":%b}'),
    ):
        refused(await send(client, "POST", path, body % number), 400)
    refused(await send(client, "PUT", "/v1/versions/v/io", number), 400)
    assert (await client.get(invocation)).json()["status"] == "running"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"fitness_score":1e400}', "/fitness_score"),
        (b'{"accuracy":"0.5"}', "/accuracy"),
        (b'{"novelty":false}', "/novelty"),
        (b'{"usd_cost":1e400}', "/usd_cost"),
        (b'{"usd_cost":"NaN"}', "/usd_cost"),
        (b'{"metadata":{"x":1e99999}}', "/metadata"),
        (b'{"metadata":[1]}', "/metadata"),
        (b'{"fitness_score":[' + b"9" * 5000 + b"]}", "/fitness_score"),
    ],
)
async def test_b02_numbers_that_no_field_can_hold_are_refused_and_the_good_ones_before_stay(
    client: httpx.AsyncClient, invocation: str, body: bytes, pointer: str
) -> None:
    assert (await client.patch(invocation, json={"fitness_score": 0.5})).status_code == 200
    found = refused(await send(client, "PATCH", invocation, body), 422)
    assert [error["pointer"] for error in found["errors"]] in ([pointer], [""])
    assert (await client.get(invocation)).json()["fitness_score"] == 0.5


@pytest.mark.parametrize("number", [b"9007199254740993", b"9007199254740992", b"-1", b"1.5", b"1e-3", b'"1"', b"true"])
async def test_b03_declared_integers_have_bounds(client: httpx.AsyncClient, invocation: str, number: bytes) -> None:
    found = refused(
        await send(client, "POST", f"{invocation}/nodes", b'{"node_id":"n","input_tokens":%b}' % number), 422
    )
    assert found["errors"][0]["pointer"] == "/input_tokens"


async def test_b03_an_integer_may_be_written_with_a_point(client: httpx.AsyncClient, invocation: str) -> None:
    for number in (b"8", b"8.0", b"80e-1", b"0.8e1"):
        made = await send(client, "POST", f"{invocation}/nodes", b'{"node_id":"n","input_tokens" : %b}' % number)
        compact = await send(client, "POST", f"{invocation}/nodes", b'{"node_id":"n","input_tokens":%b}' % number)
        assert made.json()["input_tokens"] == compact.json()["input_tokens"] == 8
        assert b'"input_tokens":8,' in made.content


async def test_b03_free_numbers_keep_every_digit(client: httpx.AsyncClient, invocation: str) -> None:
    body = b'{"metadata":{"id":9007199254740993,"small":0.1000000000000000055511151231257827}}'
    assert b"9007199254740993" in (await send(client, "PATCH", invocation, body)).content
    assert b"0.1000000000000000055511151231257827" in (await client.get(invocation)).content
    cost = await send(client, "PATCH", invocation, b'{"usd_cost":12345678901234567.123456789012345678}')
    assert b'"usd_cost":12345678901234567.123456789012345678' in cost.content


INSTANTS = [
    "2026-01-01T00:00:00",
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+14:00",
    "1767607200000",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00Z",
    "infinity",
    "-infinity",
    "2026-02-30T00:00:00Z",
    "now",
    "",
]


@pytest.mark.parametrize("instant", INSTANTS)
async def test_b04_instants_that_are_none_are_refused_in_bodies_and_filters(
    client: httpx.AsyncClient, make: Make, instant: str
) -> None:
    version = (await make.version())["id"]
    body = {"version_id": version, "started_at": instant}
    assert refused(await client.post("/v1/invocations", json=body), 422)["errors"][0]["pointer"] == "/started_at"
    refused(await client.post("/v1/invocations", json={**body, "started_at": 1767607200}), 422)
    for name in ("started_after", "ended_before"):
        for path in ("/v1/invocations", "/v1/invocations/summary"):
            found = refused(await client.get(path, params={name: instant}), 422)
            assert found["errors"][0]["pointer"] == name


async def test_b04_instants_with_any_offset_come_back_in_utc(client: httpx.AsyncClient, make: Make) -> None:
    for given, shown in (
        ("2026-01-01T00:00:00+14:00", "2025-12-31T10:00:00.000000Z"),
        ("2026-01-01T00:00:00.123456-12:00", "2026-01-01T12:00:00.123456Z"),
        ("9999-12-31T23:59:59.999998Z", "9999-12-31T23:59:59.999998Z"),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z"),
    ):
        made = await make.invocation(started_at=given)
        assert made["started_at"] == shown
        found = await client.get("/v1/invocations", params={"started_after": given, "limit": 1000})
        assert made["id"] in {item["id"] for item in found.json()["items"]}


@pytest.mark.parametrize("path", ["/v1/workflows", "/v1/versions", "/v1/invocations", "/v1/node-invocations"])
async def test_b05_page_sizes_beyond_their_bounds_are_refused(client: httpx.AsyncClient, path: str) -> None:
    for limit in ("2147483648", "99999999999", "-1", "0", "1001", "1.5", "9223372036854775808", "x", "", " 1", "1_0"):
        found = refused(await client.get(path, params={"limit": limit}), 422)
        assert found["errors"][0]["pointer"] == "limit"
    refused(await client.get(path, params={"limit": "20", "offset": "2147483648"}), 422)
    assert (await client.get(path, params={"limit": "1000"})).status_code == 200


@pytest.mark.parametrize("depth", [500, 512, 513, 1000, 20_000, 200_000])
@pytest.mark.parametrize("member", ["metadata", "dsl", "unknown"])
async def test_b06_nesting_beyond_the_limit_is_refused_at_every_depth(
    client: httpx.AsyncClient, depth: int, member: str
) -> None:
    deep = b"[" * (depth - 1) + b"1" + b"]" * (depth - 1)
    if member == "metadata":
        answer = await send(client, "PUT", "/v1/workflows/w", b'{"metadata":{"a":%b}}' % deep)
    elif member == "dsl":
        answer = await send(client, "POST", "/v1/workflows/w/versions", b'{"workflow":{},"dsl":[%b]}' % deep)
    else:
        answer = await send(client, "PUT", "/v1/workflows/w", b'{"unknown":%b}' % deep)
    if depth > 512 or member == "unknown":
        refused(answer)
        assert (await client.get("/v1/workflows/w")).status_code == 404
    else:
        assert answer.status_code == 201, answer.text[:300]
        for path in ("/v1/workflows/w", "/v1/workflows", "/v1/versions?include=dsl"):
            assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"version_id":"a","version_id":"b"}',
        b'{"version_id":"v","\\u0076ersion_id":"v"}',
        b'{"version_id":"v","metadata":{"a":1,"a":2}}',
        b'{"version_id":"v","id":"x","id":"x"}',
    ],
)
async def test_b06_a_member_named_twice_is_refused(client: httpx.AsyncClient, make: Make, body: bytes) -> None:
    await make.version(id="v")
    refused(await send(client, "POST", "/v1/invocations", body))
    assert (await client.get("/v1/invocations")).json()["items"] == []


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b"[]", b"null", b'"x"', b"{}x", b"\xff", b'{"name":"\xff"}', b"\xef\xbb\xbf{}",
             b'{"name":"a\tb"}', b'{"name":"\\x"}', b"{'name':1}", b'{"name":"a",}', b'{"a" 1}', b"\x00"],
)  # fmt: skip
async def test_text_that_is_no_json_object_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    refused(await send(client, "POST", "/v1/workflows/w/versions", body))
    refused(await send(client, "POST", "/v1/batch", body))
