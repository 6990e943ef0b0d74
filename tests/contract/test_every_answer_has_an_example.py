"""Every success answer of the document has an example: valid, believable, and with the members really answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from app.http.sample_components import WITHIN
from app.http.sample_members import ANYWHERE
from app.http.sample_moments import BODIES, MOMENTS, SHOWING
from app.http.sample_story import LEFT_OUT, Changed
from app.http.samples import PLACEHOLDER, short
from app.http.service import Service
from tests.contract.script import SCRIPT, arrange

JSON = "application/json"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
# What happens within what: none of the later ones is before an earlier one.
COURSE = ("accepted_at", "created_at", "started_at", "heartbeat_at", "ended_at", "settled_at", "completed_at")
# What a test that fails says to whoever has added a member, a component or a route.
GIVE = "give it a line in app/http/sample_members.py, sample_components.py or sample_moments.py (see samples.py)"
TAKE = "take its line out: nothing shows it any more"
OPEN = {"queued", "running", "pending", "draft", "active", "closed"}


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


def shown(document: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any], Any]]:
    """Route, status, media type, schema and example of every success answer that is not bytes."""
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, answer in operation["responses"].items():
                for media, content in answer.get("content", {}).items() if status[0] == "2" else ():
                    if media != "*/*":
                        schema = content.get("schema", {})
                        whole = schemas.get(schema.get("$ref", "").rpartition("/")[2], {})
                        example = content["example"] if "example" in content else whole.get("examples", [None])[0]
                        yield f"{method.upper()} {path}", status, media, schema, example


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in an example, at any depth."""
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(below)


def test_it_is_there_and_valid(document: dict[str, Any]) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER
    found = list(shown(document))
    assert len(found) > 300
    for route, status, media, schema, example in found:
        assert example is not None, (route, status, media, GIVE)
        whole = {**schema, "components": document["components"]}
        errors = list(Draft202012Validator(whole, format_checker=checker).iter_errors(example))
        assert errors == [], (route, status, errors[0].json_path, errors[0].message, GIVE)


def test_it_is_believable(document: dict[str, Any]) -> None:
    for route, status, _, _, example in shown(document):
        for one in objects(example):
            assert PLACEHOLDER not in one.values() or one.get("type") == "string", (route, status, one, GIVE)
            if {"code", "detail"} <= one.keys():
                assert one["code"] in document["components"]["examples"], (route, one["code"])
            told = {name: value for name, value in one.items() if name.endswith("_at") and value is not None}
            assert all(INSTANT.fullmatch(value) for value in told.values()), (route, told)
            course = [told[name] for name in COURSE if name in told]
            assert course == sorted(course), (route, told)
            state = one.get("state", one.get("status"))
            if "ended_at" in one and isinstance(state, str):
                assert (one["ended_at"] is None) == (state in OPEN), (route, state)


def test_what_requests_hold_has_no_example_of_an_answer(document: dict[str, Any]) -> None:
    asked: set[str] = set()

    def reach(schema: Any) -> None:
        for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)):
            if name not in asked:
                asked.add(name)
                reach(document["components"]["schemas"][name])

    for item in document["paths"].values():
        reach([operation.get("requestBody") for operation in item.values()])
    assert len(asked) > 100
    assert [name for name in asked if "examples" in document["components"]["schemas"][name]] == []


def test_everything_that_is_told_is_used(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    answers = list(shown(document))
    every = [one for *_, example in answers for one in objects(example)]
    for name, value in ANYWHERE.items():
        assert value is LEFT_OUT or any(name in one and one[name] == value for one in every), (name, TAKE)
    for name, members in WITHIN.items():
        alike = [schema for key, schema in schemas.items() if short(key) == name]
        assert alike, (name, TAKE)
        for member, value in members.items():
            assert any(member in schema["properties"] for schema in alike), (name, member, TAKE)
            usual = value is LEFT_OUT or isinstance(value, Changed)
            assert usual or any(member in one and one[member] == value for one in every), (name, member, TAKE)
    routes = {route for route, *_ in answers}
    moments = {f"{status} {route}" for route, status, *_ in answers}
    moments |= {f"{status} {schema.get('$ref', '').rpartition('/')[2]}" for _, status, _, schema, _ in answers}
    assert MOMENTS.keys() - routes - moments == set()
    assert SHOWING - routes == set()
    assert BODIES.keys() - {route.partition(" ")[2] for route in routes} == set()


async def test_its_members_are_those_that_are_answered(
    service: Service, client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    ids = await arrange(client, client.headers["x-test-tenant"], service.ground.database.url)
    examples = {(route, status): example for route, status, media, _, example in shown(document) if media == JSON}
    compared = 0
    for line in SCRIPT:
        # Payloads and limits are as they were given; what a query asks for is beyond what is usually shown.
        usual = replace(line, query=re.sub(r"include=[^&]*&?", "", line.query).rstrip("?&"))
        answer = await usual.call(client, ids)
        example = examples.get((line.route, str(answer.status_code)))
        free = line.route.rpartition("/")[2] in ("dsl", "io", "memory", "checkpoint", "{document_id}", "limits")
        if not isinstance(example, dict) or free or "group_by=dsl_hash" in line.query:
            continue
        real = answer.json()
        if real.get("items") and isinstance(example.get("items"), list):
            assert example["items"][0].keys() == real["items"][0].keys(), (line.route, GIVE)
        elif "items" not in real or "items" in example:
            assert example.keys() == real.keys() - {"total"}, (line.route, GIVE)
        compared += 1
    assert compared > 220
