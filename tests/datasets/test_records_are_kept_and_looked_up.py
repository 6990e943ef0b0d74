"""The records of datasets: stored all or none, listed in order, looked up strictly."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from app.datasets import record_store
from tests.conftest import Make
from tests.payloads import codes, problem, send

RECORDS = "/v1/datasets/ds/records"
LOOKUP = "/v1/dataset-records/lookup"


@pytest.fixture(autouse=True)
async def dataset(make: Make) -> dict[str, Any]:
    return await make.created("/v1/datasets", id="ds", name="Questions")


async def test_records_are_listed_in_the_order_in_which_they_were_sent(client: httpx.AsyncClient) -> None:
    names = [f"r{(n * 7) % 50:02}" for n in range(50)]
    made = await client.post(
        RECORDS, json={"items": [{"id": name, "workflow_input": n} for n, name in enumerate(names)]}
    )
    assert made.status_code == 201, made.text
    assert [item["id"] for item in made.json()["items"]] == names
    listed = (await client.get(f"{RECORDS}?limit=1000&include=workflow_input")).json()["items"]
    assert [(item["id"], item["workflow_input"]) for item in listed] == [(name, n) for n, name in enumerate(names)]


async def test_records_are_stored_all_or_none(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RECORDS, id="r1", ground_truth=1.0)
    mixed = {"items": [{"id": "r0"}, {"id": "r1", "ground_truth": 1.0}, {"id": "r2"}]}
    assert (await client.post(RECORDS, json=mixed)).status_code == 201
    assert (await client.post(RECORDS, json=mixed)).status_code == 200
    refused = await client.post(RECORDS, json={"items": [{"id": "r9"}, {"id": "r1", "ground_truth": 1}, {"id": "r2"}]})
    assert (problem(refused), refused.json()["ids"]) == ((409, "dataset_record_conflict"), ["r1"])
    assert (await client.get("/v1/dataset-records/r9")).status_code == 404
    twice = await client.post(RECORDS, json={"items": [{"id": "a"}, {"id": "a"}]})
    assert problem(twice) == (422, "invalid_input")


async def test_the_same_record_in_another_dataset_is_a_conflict(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/datasets", id="other", name="Other")
    await make.created(RECORDS, id="r", workflow_input="x")
    refused = await client.post("/v1/datasets/other/records", json={"id": "r", "workflow_input": "x"})
    assert problem(refused) == (409, "dataset_record_conflict")


async def test_many_writers_of_the_same_records_store_them_once(client: httpx.AsyncClient) -> None:
    items = [{"id": f"r{n}", "ground_truth": n} for n in range(20)]
    answers = await gather(*(client.post(RECORDS, json={"items": items[::-1] if n % 2 else items}) for n in range(10)))
    assert codes(answers) == [200] * 9 + [201]
    assert (await client.get(f"{RECORDS}?count=exact")).json()["total"] == 20


async def test_a_record_belongs_to_a_version_of_its_own_dataset(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/datasets", id="other", name="Other")
    await make.created("/v1/datasets/other/versions", id="theirs")
    version = await make.created("/v1/datasets/ds/versions", id="v1", version_label="1.0", snapshot_metadata={"a": 1})
    assert (version["dataset_id"], version["version_label"], version["snapshot_metadata"]) == ("ds", "1.0", {"a": 1})
    assert (await client.get("/v1/datasets/ds/versions/v1")).json() == version
    await make.created(RECORDS, id="r1", dataset_version_id="v1")
    await make.created(RECORDS, id="r2")
    for name in ("theirs", "absent"):
        refused = await client.post(RECORDS, json={"dataset_version_id": name})
        assert problem(refused) == (404, "dataset_version_not_found")
    of_version = (await client.get(f"{RECORDS}?dataset_version_id=v1&count=exact")).json()
    assert ([item["id"] for item in of_version["items"]], of_version["total"]) == (["r1"], 1)
    assert problem(await client.get("/v1/datasets/ds/versions/theirs")) == (404, "dataset_version_not_found")


async def test_a_lookup_answers_in_the_order_asked_and_as_often_as_asked(client: httpx.AsyncClient, make: Make) -> None:
    for name in ("a", "b", "c"):
        answer = await send(client, "POST", RECORDS, b'{"id":"%b","workflow_input":[1.0, 2]}' % name.encode())
        assert answer.status_code == 201
    found = await client.post(LOOKUP, json={"ids": ["c", "a", "c", "b"]})
    assert found.status_code == 200, found.text
    assert [item["id"] for item in found.json()["items"]] == ["c", "a", "c", "b"]
    assert found.json()["missing_ids"] == []
    assert found.content.count(b'"workflow_input":[1.0, 2]') == 4
    bare = await client.post(f"{LOOKUP}?include=ground_truth", json={"ids": ["a"]})
    assert "workflow_input" not in bare.json()["items"][0]


async def test_a_lookup_names_every_id_that_is_not_there(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RECORDS, id="a")
    ids = ["x", "a", "y", "x"]
    refused = await client.post(LOOKUP, json={"ids": ids})
    assert problem(refused) == (404, "dataset_record_not_found")
    assert refused.json()["missing_ids"] == ["x", "y"]
    allowed = await client.post(LOOKUP, json={"ids": ids, "allow_missing": True})
    assert ([item["id"] for item in allowed.json()["items"]], allowed.json()["missing_ids"]) == (["a"], ["x", "y"])
    none = await client.get("/v1/dataset-records/x")
    assert (problem(none), none.json()["missing_ids"]) == ((404, "dataset_record_not_found"), ["x"])
    for bad in ([], ["a"] * 1001, [1], "a"):
        assert (await client.post(LOOKUP, json={"ids": bad})).status_code == 422


async def test_a_lookup_is_a_read_alone_and_in_a_batch(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RECORDS, id="a", ground_truth="first")
    lookup = {"method": "POST", "path": LOOKUP, "body": {"ids": ["a", "b"], "allow_missing": True}}
    keyed = {"headers": {"idempotency-key": "k", "submission-attempt": "s;a"}}
    alone = [await client.post(LOOKUP, json=lookup["body"], **keyed) for _ in range(2)]
    assert codes(alone) == [200, 200]
    assert "idempotency-replayed" not in alone[1].headers
    batch = {"operations": [lookup, {"method": "POST", "path": RECORDS, "body": {"id": "b"}}, lookup]}
    first = await client.post("/v1/batch", json=batch, headers={"idempotency-key": "b"})
    assert first.status_code == 200, first.text
    assert [result["body"].get("missing_ids") for result in first.json()["results"]] == [["b"], None, []]
    # What was read is not kept: a replay reads it again.
    again = await client.post("/v1/batch", json=batch, headers={"idempotency-key": "b"})
    assert [result["body"].get("missing_ids") for result in again.json()["results"]] == [[], None, []]
    reads = await client.post("/v1/batch", json={"operations": [lookup, lookup]})
    assert [len(result["body"]["items"]) for result in reads.json()["results"]] == [2, 2]
    only_reader = {"operations": [{"method": "POST", "path": "/v1/absent"}]}
    assert problem(await client.post("/v1/batch", json=only_reader)) == (404, "not_found")


async def test_a_lookup_shows_no_more_than_one_answer_holds(
    client: httpx.AsyncClient, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "LOOKUP_BYTES_MAX", 10_000)
    large = '"' + "x" * 20_000 + '"'
    for name in ("a", "b"):
        body = f'{{"id":"{name}","workflow_input":{large},"ground_truth":{name!r}}}'.replace("'", '"')
        assert (await send(client, "POST", RECORDS, body.encode())).status_code == 201
    for ids in (["a"] * 1000, ["a", "b"], ["a", "absent", "a"]):
        refused = await client.post(LOOKUP, json={"ids": ids, "allow_missing": True})
        assert (problem(refused), refused.json()["limit_bytes"]) == ((422, "invalid_input"), 10_000)
        assert refused.json()["errors"][0]["pointer"] == "/ids"
    # One that is missing is said first; one record is shown however large; what is not asked for does not count.
    assert problem(await client.post(LOOKUP, json={"ids": ["a", "a", "absent"]})) == (404, "dataset_record_not_found")
    assert (await client.post(LOOKUP, json={"ids": ["a"]})).content.count(large.encode()) == 1
    assert (await client.get("/v1/dataset-records/a")).content.count(large.encode()) == 1
    for include, shown in (("ground_truth", b'"ground_truth":"a"'), ("", b'"id":"a"')):
        answer = await client.post(f"{LOOKUP}?include={include}", json={"ids": ["a"] * 1000})
        assert (answer.status_code, answer.content.count(shown)) == (200, 1000)


async def test_what_invocations_refer_to_stays(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RECORDS, id="used")
    await make.created(RECORDS, id="unused")
    await make.created("/v1/datasets/ds/versions", id="v1")
    await make.created("/v1/evaluators", id="e", name="Judge")
    await make.invocation(id="i", dataset_record_id="used", evaluator_id="e")
    assert problem(await client.delete("/v1/dataset-records/used")) == (409, "dataset_record_in_use")
    refused = await client.delete("/v1/datasets/ds")
    assert (problem(refused), refused.json()["invocation_ids"]) == ((409, "dataset_in_use"), ["i"])
    assert problem(await client.delete("/v1/evaluators/e")) == (409, "evaluator_in_use")
    assert (await client.get(f"{RECORDS}?count=exact")).json()["total"] == 2
    assert (await client.delete("/v1/dataset-records/unused")).status_code == 204
    await client.post("/v1/invocations/i/cancel", json={"force": True})
    assert (await client.delete("/v1/invocations/i")).status_code == 204
    for path in ("/v1/datasets/ds", "/v1/evaluators/e"):
        assert (await client.delete(path)).status_code == 204
        assert (await client.delete(path)).status_code == 404
    assert (await client.get("/v1/dataset-records/used")).status_code == 404
    assert problem(await client.get(RECORDS)) == (404, "dataset_not_found")
    missing = await client.post("/v1/invocations", json={"version_id": "v", "dataset_record_id": "used"})
    assert missing.status_code == 404


async def test_a_record_that_is_named_while_its_dataset_goes_is_kept_or_refused(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version()
    for n in range(10):
        await make.created("/v1/datasets", id=f"d{n}", name="d")
        await make.created(f"/v1/datasets/d{n}/records", id=f"q{n}")
    started, gone = [], []
    for n in range(10):
        body = {"version_id": version["id"], "dataset_record_id": f"q{n}"}
        pair = await gather(client.post("/v1/invocations", json=body), client.delete(f"/v1/datasets/d{n}"))
        started.append(pair[0].status_code)
        gone.append(pair[1].status_code)
    assert {(a, b) for a, b in zip(started, gone, strict=True)} <= {(201, 409), (404, 204)}
