"""Nothing that is sent is ignored, and every refusal is a problem that names what it is about."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import httpx
import pytest

from app.http.router import NOT_BESIDE_ROUTES
from tests.conftest import Make
from tests.payloads import problem, send

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "request_id"}


def operations(service: Any) -> list[tuple[str, str]]:
    """Every operation of the document: method and path template."""
    return [(method.upper(), path) for path, item in service.openapi()["paths"].items() for method in item]


def filled(path: str, **values: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "x"), path)


async def test_a_body_where_none_is_taken_is_refused_on_every_route(client: httpx.AsyncClient, service: Any) -> None:
    for method, path in operations(service):
        if method == "GET" or "requestBody" in (told := service.openapi()["paths"][path][method.lower()]):
            continue
        # The query is read first, so it has to be right.
        needed = [one["name"] for one in told.get("parameters", ()) if one.get("in") == "query" and one.get("required")]
        query = "".join(f"{'&' if place else '?'}{name}=x" for place, name in enumerate(needed))
        for body, expected in ((b'{"more":1}', 422), (b"[]", 422), (b'{"more":', 400)):
            answer = await send(client, method, filled(path) + query, body)
            assert answer.status_code == expected, (method, path, answer.text)
        other = await client.request(
            method, filled(path) + query, content=b"<a/>", headers={"content-type": "text/xml"}
        )
        assert problem(other) == (415, "unsupported_media_type"), (method, path)


async def test_a_coded_body_is_refused_with_the_coding_that_is_taken(client: httpx.AsyncClient) -> None:
    body = b'{"path":"p","identity":{"agent_name":"a","instance_id":"i"}}'
    headers = {"content-type": "application/json"}
    query = f"path=p&id=a&conversation_id=c&mime_type=x/y&size=3&digest={hashlib.sha256(b'abc').hexdigest()}"
    for target, content in (("/v1/conversations", body), (f"/v1/attachments?{query}", b"abc")):
        coded = await client.put(target, content=content, headers={**headers, "content-encoding": "gzip"})
        assert problem(coded) == (415, "unsupported_media_type")
        assert coded.headers["accept-encoding"] == "identity"
        plain = await client.put(target, content=content, headers={**headers, "content-encoding": "Identity"})
        assert plain.status_code == 201


async def test_an_empty_object_is_a_body_that_says_nothing(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="inv")
    assert (await client.post("/v1/invocations/inv/heartbeat", json={})).status_code == 200


async def test_a_word_that_is_a_route_is_no_id_on_any_route(client: httpx.AsyncClient, service: Any) -> None:
    reads = {filled(path) for method, path in operations(service) if method == "GET"}
    for method, path in operations(service):
        for name in re.findall(r"\{(\w+)\}", path):
            words = () if name in NOT_BESIDE_ROUTES else ("latest", "summary")
            for word in (*words, "%2E%2E"):
                raw = filled(path, **{name: word})
                if method == "GET" and raw in reads:
                    continue
                answer = await client.request(method, raw, json={} if method != "GET" else None)
                assert problem(answer) == (422, "invalid_input"), (method, raw, answer.text)
                assert answer.json()["errors"][0]["pointer"] == name


@pytest.mark.parametrize(
    "number", [b"1e99999999999999999999", b"-1e999999999", b"1e-99999999999999999999", b"9" * 5000]
)
async def test_b02_a_number_beyond_every_type_is_refused_by_name(
    client: httpx.AsyncClient, make: Make, number: bytes
) -> None:
    await make.invocation(id="inv")
    for method, path, field in (
        ("PATCH", "/v1/invocations/inv", "usd_cost"),
        ("PATCH", "/v1/invocations/inv", "accuracy"),
        ("POST", "/v1/invocations/inv/messages", "seq"),
    ):
        answer = await send(client, method, path, b'{"role":"user","%s":%s}' % (field.encode(), number))
        assert problem(answer) == (422, "invalid_input"), answer.text
        assert f"/{field}" in {error["pointer"] for error in answer.json()["errors"]}


async def test_b06_a_member_named_twice_is_refused_wherever_it_is_read(client: httpx.AsyncClient) -> None:
    body = b'{"operations":[{"method":"GET","path":"/v1/workflows","headers":{"a":"1","a":"2"}}]}'
    assert problem(await send(client, "POST", "/v1/batch", body)) == (400, "malformed_request")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/docs", 405),
        ("POST", "/openapi.json", 405),
        ("DELETE", "/redoc", 405),
        ("GET", "/docs/", 404),
        ("GET", "/", 404),
        ("GET", "/v1/workflows/", 404),
        ("OPTIONS", "/v1/workflows", 405),
    ],
)
async def test_what_the_framework_refuses_is_a_problem_too(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert answer.json().keys() >= MEMBERS
    assert answer.json()["instance"] == path
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/redoc", "/problems", "/healthz", "/metrics"])
async def test_the_headers_that_are_always_there_are_there(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"x-request-id": "mine-1"})
    assert answer.status_code == 200
    assert (answer.headers["x-request-id"], answer.headers["x-content-type-options"]) == ("mine-1", "nosniff")
