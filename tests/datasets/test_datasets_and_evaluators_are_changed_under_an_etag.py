"""Datasets and evaluators: created once, found, changed, and told of in events."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem

DATASET = {
    "id": "ds",
    "name": "Questions",
    "description": "Asked in May",
    "data_format": "qa",
    "status": "ready",
    "owner_id": "ann",
    "metadata": {"a": 1},
}
EVALUATOR = {"id": "e", "name": "Judge", "config": {"model": "m"}, "rubric": [1, "two"], "owner_id": "ann"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dataset": ("/v1/datasets", DATASET),
    "evaluator": ("/v1/evaluators", EVALUATOR),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_field_comes_back_and_changes_alone(client: httpx.AsyncClient, kind: str) -> None:
    path, fields = KINDS[kind]
    made = await client.post(path, json=fields)
    assert made.status_code == 201, made.text
    assert {name: made.json()[name] for name in fields} == fields
    one = f"{path}/{fields['id']}"
    assert (await client.get(one)).content == made.content
    for name in fields.keys() - {"id"}:
        changed = await client.patch(one, json={name: "other" if name != "metadata" else {}})
        assert changed.status_code == 200, changed.text
    shown = (await client.get(one)).json()
    assert {name: shown[name] for name in fields.keys() - {"id", "metadata"}} == dict.fromkeys(
        fields.keys() - {"id", "metadata"}, "other"
    )
    cleared = await client.patch(one, json={"owner_id": None})
    assert cleared.json()["owner_id"] is None
    for body in ({"name": None}, {"name": ""}, {"id": "x"}, {"unknown": 1}):
        assert problem(await client.patch(one, json=body)) == (422, "invalid_input")
    again = await client.post(path, json=fields)
    assert (again.status_code, again.json()) == (200, cleared.json())
    assert problem(await client.post(path, json={**fields, "name": "third"})) == (409, f"{kind}_conflict")


@pytest.mark.parametrize("kind", KINDS)
async def test_they_are_found_by_owner_and_text(client: httpx.AsyncClient, make: Make, kind: str) -> None:
    path, _ = KINDS[kind]
    for name, owner in (("Alpha one", "ann"), ("alpha two", "bob"), ("Beta", "bob")):
        await make.created(path, name=name, owner_id=owner)

    async def names(query: str) -> list[str]:
        return [item["name"] for item in (await client.get(f"{path}?{query}")).json()["items"]]

    assert await names("") == ["Beta", "alpha two", "Alpha one"]
    assert await names("q=ALPHA&order=asc") == ["Alpha one", "alpha two"]
    assert await names("owner_id=bob&q=alpha") == ["alpha two"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_there_is_named(client: httpx.AsyncClient, kind: str) -> None:
    one = f"{KINDS[kind][0]}/absent"
    for answer in (await client.get(one), await client.patch(one, json={"name": "n"}), await client.delete(one)):
        assert problem(answer) == (404, f"{kind}_not_found")
    for path in ("/v1/datasets/absent/versions", "/v1/datasets/absent/records"):
        for answer in (await client.get(path), await client.post(path, json={})):
            assert problem(answer) == (404, "dataset_not_found")
    assert problem(await client.get("/v1/datasets/absent/versions/v")) == (404, "dataset_version_not_found")


async def test_the_life_of_a_dataset_is_told_in_events(client: httpx.AsyncClient, service: Service) -> None:
    await client.post("/v1/datasets", json=DATASET)
    version = await client.post("/v1/datasets/ds/versions", json={"id": "v1"})
    await client.delete("/v1/datasets/ds")
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events")).json()["items"]
    assert [(event["type"], event["subject_id"], event["subject_parent_id"]) for event in events] == [
        ("dataset.created", "ds", None),
        ("dataset_version.created", "v1", "ds"),
        ("dataset.deleted", "ds", None),
    ]
    assert events[1]["data"] == version.json()
