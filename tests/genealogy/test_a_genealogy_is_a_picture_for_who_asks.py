"""`Accept: image/svg+xml` draws a workflow's genealogy; everyone else gets the same JSON as ever."""

from __future__ import annotations

from urllib.parse import quote
from xml.etree.ElementTree import fromstring

import httpx

from app.http.service import Service
from tests.conftest import Make
from tests.genealogy.lineages import CIRCLE, LATTICE, insert

SVG = "{http://www.w3.org/2000/svg}"
ASKING = {"accept": "image/svg+xml"}


async def test_a_genealogy_is_drawn_with_labels_and_a_legend(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    await make.version("w", id="first")
    await make.version("w", id="second", operation="mutation", parent1_id="first", commit_message="Ask back.")
    answer = await client.get("/v1/workflows/w/genealogy", headers=ASKING)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["vary"] == "Accept"
    texts = [text.text for text in fromstring(answer.content).iter(f"{SVG}text")]
    assert {"Genealogy of workflow w", "first", "second", "Ask back.", "init 1", "mutation 1", "depth 0"} <= set(texts)
    assert answer.content == (await client.get("/v1/workflows/w/genealogy", headers=ASKING)).content


async def test_everyone_else_gets_json_that_varies_by_accept(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    await make.version("w", id="v")
    for accept in ("*/*", "application/json", "text/html", "image/png", "image/svg+xml;q=0.1, application/json"):
        answer = await client.get("/v1/workflows/w/genealogy", headers={"accept": accept})
        assert (answer.headers["content-type"], answer.headers["vary"]) == ("application/json", "Accept")
        assert [node["id"] for node in answer.json()["nodes"]] == ["v"]
    operations = [{"method": "GET", "path": "/v1/workflows/w/genealogy", "headers": {"Accept": "image/svg+xml"}}]
    batch = await client.post("/v1/batch", json={"operations": operations})
    assert batch.json()["results"][0]["body"]["edges"] == []


async def test_a_workflow_without_versions_has_a_picture_and_none_is_404(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    empty = await client.get("/v1/workflows/w/genealogy", headers=ASKING)
    assert b"Nothing is recorded yet." in empty.content
    missing = await client.get("/v1/workflows/missing/genealogy", headers=ASKING)
    assert (missing.status_code, missing.json()["code"]) == (404, "workflow_not_found")
    assert missing.headers["content-type"] == "application/problem+json"


async def test_ids_and_messages_are_text_whatever_they_say(client: httpx.AsyncClient, make: Make) -> None:
    wild = "<script>alert(1)</script>&\"'\x1b" + "\u202e" + "é" * 80
    await make.workflow(id=wild)
    path = f"/v1/workflows/{quote(wild, safe='')}"
    made = await client.post(f"{path}/versions", json={"id": wild, "dsl": 1, "commit_message": wild})
    assert made.status_code == 201, made.text
    answer = await client.get(f"{path}/genealogy", headers=ASKING)
    assert answer.status_code == 200, answer.text
    assert b"<script" not in answer.content
    titles = [title.text or "" for title in fromstring(answer.content).iter(f"{SVG}title")]
    shown = wild.replace("\x1b", "�").replace("\u202e", "�")
    assert titles[0] == f"Genealogy of workflow {shown}"
    assert titles[1].startswith(shown)


async def test_a_lattice_and_a_circle_are_drawn(client: httpx.AsyncClient, service: Service) -> None:
    await insert(service, client, LATTICE, CIRCLE)
    answer = await client.get("/v1/workflows/w/genealogy", headers=ASKING)
    nodes = [group for group in fromstring(answer.content).iter(f"{SVG}g") if group.get("class") == "node"]
    assert len(nodes) == 405


async def test_more_than_a_picture_holds_is_refused_with_what_to_do(
    client: httpx.AsyncClient, service: Service
) -> None:
    await insert(service, client, "SELECT 'v' || n, NULL, NULL FROM generate_series(1, 1001) AS n")
    refused = await client.get("/v1/workflows/w/genealogy", headers=ASKING)
    assert (refused.status_code, refused.json()["code"]) == (422, "picture_too_large")
    assert (refused.json()["count"], refused.json()["count_max"]) == (1001, 1000)
    assert "limit=500" in refused.json()["detail"]
    fewer = await client.get("/v1/workflows/w/genealogy?limit=500", headers=ASKING)
    assert fewer.status_code == 200
    assert b"older versions are left out" in fewer.content
    assert (await client.get("/v1/workflows/w/genealogy")).status_code == 200
