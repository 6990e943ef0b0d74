"""Q10 to Q13, Q17 to Q26: what is asked of runs, workflows, genealogies, datasets, configurations and keys."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.lucky.conftest import Importer
from tests.lucky.generator import Dump
from tests.lucky.reading import Record, accuracy, cost, ids, score


@pytest.fixture
async def record(importer: Importer, tmp_path: Path) -> Record:
    """An imported dump of two runs; both generations of the first know one configuration."""
    dump = Dump(10, runs=2, generations=3, size=3)
    dump.row("EvolutionRun", 1).update(
        goal_text="Find the Shortest plan", notes="a Test run", config={"file": "annotated-full.json", "mode": "gp"}
    )
    first, later = dump.row("WorkflowVersion", 0), dump.row("WorkflowVersion", 7)
    later["dsl"] = first["dsl"]
    await importer.run(dump.write(tmp_path))
    return Record(dump, importer.client)


def mean(numbers: list[float]) -> float:
    """Their average."""
    return sum(numbers) / len(numbers)


async def test_q10_evolution_run_list_with_what_is_derived_in_one_statement(record: Record) -> None:
    await record.client.post("/v1/evolution-runs", json={"id": "empty", "goal_text": "shortest too"})
    where = {"q": "SHORTEST", "hide_empty": "true", "started_after": "2025-01-01T00:00:00Z", "count": "exact"}
    found = await record.get("/evolution-runs", sort="accuracy_delta", order="desc", **where)
    (shown,) = found["items"]
    run = record.dump.row("EvolutionRun", 1)
    reached = record.invocations_of_run(run)
    assert (shown["id"], found["total"]) == (run["run_id"], 1)
    assert (shown["invocation_count"], shown["generation_count"]) == (len(reached), 3)
    assert shown["successful_invocation_count"] == sum(row["status"] == "completed" for row in reached)
    assert shown["total_cost"] == pytest.approx(float(cost(reached)), abs=1e-12)
    assert shown["accuracy_delta"] == pytest.approx(
        mean([accuracy(row) for row in reached[-3:]]) - mean([accuracy(row) for row in reached[:3]])
    )
    assert shown["duration"] is not None
    for sort, column in {"id": "run_id", "goal_text": "goal_text"}.items():
        listed = await record.get("/evolution-runs", sort=sort, hide_empty="true")
        told = [row[column] for row in record.dump.rows["EvolutionRun"]]
        assert [one[sort] for one in listed["items"]] == sorted(told), sort
    by_status = await record.get("/evolution-runs", status="running", evolution_type=run["evolution_type"] or "none")
    assert by_status["items"] == []


async def test_q11_run_detail_tells_whether_it_is_stale(record: Record) -> None:
    await record.client.post("/v1/evolution-runs", json={"id": "old", "started_at": "2026-01-05T10:00:00Z"})
    old = await record.get("/evolution-runs/old")
    assert (old["status"], old["started_at"], old["heartbeat_at"]) == ("running", "2026-01-05T10:00:00.000000Z", None)
    shown = await record.get(f"/evolution-runs/{record.run['run_id']}")
    assert (shown["goal_text"], shown["config"]) == (record.run["goal_text"], record.run["config"])


async def test_q12_generations_of_a_run_with_versions_invocations_and_identical_configurations_once(
    record: Record,
) -> None:
    run = record.run["run_id"]
    generations, versions, invocations, configurations = await record.batch(
        f"/evolution-runs/{run}/generations",
        f"/evolution-runs/{run}/versions",
        f"/invocations?linked_run_id={run}&order=asc",
        f"/evolution-runs/{run}/versions?group_by=dsl_hash",
    )
    rows = record.rows("Generation", run_id=run)
    assert [item["number"] for item in generations["items"]] == [0, 1, 2]
    reached = record.invocations_of_run(record.run)
    for number, item in enumerate(generations["items"]):
        scores = [score(row) for row in reached[number * 3 : number * 3 + 3]]
        assert (item["id"], item["member_count"]) == (rows[number]["generation_id"], 3)
        assert item["fitness"] == {"min": pytest.approx(min(scores)), "max": pytest.approx(max(scores)), "count": 3}
    assert len(versions["items"]) == len(reached) == 9
    assert ids(invocations["items"]) == ids(reached, "wf_invocation_id")
    assert len(configurations["items"]) == 8
    twice = next(item for item in configurations["items"] if item["version_count"] == 2)
    assert (twice["first_generation_number"], twice["last_generation_number"]) == (0, 2)


async def test_q13_evolution_graph_timeline_and_best_of_a_run(record: Record) -> None:
    run = record.run["run_id"]
    graph, progress, best, summary = await record.batch(
        f"/evolution-runs/{run}/graph",
        f"/evolution-runs/{run}/progress",
        f"/evolution-runs/{run}/best?n=1",
        f"/invocations/summary?linked_run_id={run}",
    )
    reached = record.invocations_of_run(record.run)
    parents = {
        (row[name], row["wf_version_id"])
        for row in record.rows("WorkflowVersion")[:9]
        for name in ("parent1_id", "parent2_id")
        if row[name]
    }
    drawn = {(e["from"], e["to"]) for e in graph["edges"] if e["kind"] in ("parent1", "parent2")}
    assert drawn == parents
    assert [node["kind"] for node in graph["nodes"]].count("version") == 9
    assert set(ids(graph["nodes"])) >= set(ids(reached, "wf_invocation_id"))
    steps = progress["generations"]
    assert [step["number"] for step in steps] == [0, 1, 2]
    for number, step in enumerate(steps):
        rows = reached[number * 3 : number * 3 + 3]
        assert step["best_fitness"] == pytest.approx(max(map(score, rows)))
        assert step["accuracy"] == pytest.approx(mean([accuracy(row) for row in rows]))
        assert step["usd_cost"] == pytest.approx(float(cost(rows)), abs=1e-12)
    assert best["items"][0]["id"] == max(reached, key=score)["wf_invocation_id"]
    assert (summary["count"], summary["avg_accuracy"]) == (9, pytest.approx(mean([accuracy(row) for row in reached])))


async def test_q17_workflow_list_with_version_count_and_the_schemas_of_the_latest(record: Record) -> None:
    await record.client.put("/v1/workflows/other", json={"owner_id": "user_2"})
    workflows, latest = await record.batch("/workflows?owner_id=user_1", "/versions?latest=true&owner_id=user_1")
    rows = sorted(record.rows("Workflow"), key=lambda row: row["updated_at"], reverse=True)
    assert ids(workflows["items"]) == ids(rows, "wf_id")
    newest = {row["workflow_id"]: row for row in record.rows("WorkflowVersion")}
    for item in workflows["items"]:
        assert (item["version_count"], item["latest_version_id"]) == (9, newest[item["id"]]["wf_version_id"])
    assert sorted(ids(latest["items"])) == sorted(row["wf_version_id"] for row in newest.values())
    for item in latest["items"]:
        assert item["input_schema"] == newest[item["workflow_id"]]["input_schema"]


async def test_q18_workflow_with_its_versions(record: Record) -> None:
    workflow = record.dump.row("Workflow")
    shown, versions = await record.batch(f"/workflows/{workflow['wf_id']}", f"/workflows/{workflow['wf_id']}/versions")
    assert (shown["description"], shown["owner_id"]) == (workflow["description"], "user_1")
    rows = record.rows("WorkflowVersion", workflow_id=workflow["wf_id"])
    assert ids(versions["items"]) == ids(rows[::-1], "wf_version_id")


async def test_q19_version_by_its_id_and_the_latest_of_a_workflow(record: Record) -> None:
    shown = await record.get(f"/versions/{record.version['wf_version_id']}", include="dsl")
    assert (shown["dsl"], shown["input_schema"]) == (record.version["dsl"], record.version["input_schema"])
    workflow = record.version["workflow_id"]
    latest = await record.get(f"/workflows/{workflow}/versions/latest", include="dsl")
    assert latest["id"] == record.rows("WorkflowVersion", workflow_id=workflow)[-1]["wf_version_id"]


async def test_q20_genealogy_of_a_version(record: Record) -> None:
    rows = {row["wf_version_id"]: row for row in record.rows("WorkflowVersion")}
    youngest = list(rows)[8]
    ancestors, descendants = await record.batch(
        f"/versions/{youngest}/ancestors", f"/versions/{next(iter(rows))}/descendants"
    )
    expected: set[str] = set()
    pending = [youngest]
    while pending:
        row = rows[pending.pop()]
        found = {row["parent1_id"], row["parent2_id"]} - {None} - expected
        expected |= found
        pending += found
    assert set(ids(ancestors["items"])) - {youngest} == expected
    for item in descendants["items"]:
        assert item["operation"] == rows[item["id"]]["operation"]


async def test_q21_statistics_of_a_generation_and_of_an_invocation(record: Record) -> None:
    generation, progress, metrics = await record.batch(
        f"/generations/{record.generation['generation_id']}",
        f"/evolution-runs/{record.run['run_id']}/progress?limit=1",
        f"/invocations/{record.invocation['wf_invocation_id']}/trace/metrics",
    )
    rows = record.invocations_of_run(record.run)[:3]
    assert (generation["member_count"], generation["fitness"]["max"]) == (3, pytest.approx(max(map(score, rows))))
    assert progress["generations"][0]["avg_fitness"] == pytest.approx(mean(list(map(score, rows))))
    nodes = record.rows("NodeInvocation", wf_invocation_id=record.invocation["wf_invocation_id"])
    assert sum(node["usd_cost"] for node in metrics["nodes"]) == pytest.approx(float(cost(nodes)), abs=1e-12)


async def test_q22_datasets_and_their_records(record: Record) -> None:
    datasets, records = await record.batch(
        "/datasets?owner_id=user_1", "/datasets/ds_1/records?order=asc&include=workflow_input,ground_truth"
    )
    assert ids(datasets["items"]) == ["ds_1"]
    assert [item["workflow_input"] for item in records["items"]] == [
        row["workflow_input"] for row in record.rows("DatasetRecord")
    ]


async def test_q23_what_the_scripts_look_for(record: Record) -> None:
    second = record.dump.row("EvolutionRun", 1)["run_id"]
    config, noted, ranked, counted, dsls, others = await record.batch(
        "/evolution-runs?config_q=annotated-FULL",
        "/evolution-runs?q=test",
        "/evolution-runs?sort=invocation_count&order=desc",
        "/costs?group_by=generation",
        "/versions?include=dsl",
        f"/node-versions?not_llm_model={quote(record.dump.row('NodeVersion')['llm_model'])}",
    )
    assert ids(config["items"]) == ids(noted["items"]) == [second]
    assert [item["invocation_count"] for item in ranked["items"]] == [9, 9]
    assert {group["count"] for group in counted["items"]} == {3}
    assert len(counted["items"]) == 6
    assert {item["id"]: item["dsl"] for item in dsls["items"]} == {
        row["wf_version_id"]: row["dsl"] for row in record.rows("WorkflowVersion")
    }
    model = record.dump.row("NodeVersion")["llm_model"]
    expected = [row for row in record.rows("NodeVersion") if row["llm_model"] != model]
    assert sorted(ids(others["items"])) == sorted(ids(expected, "node_version_id"))


async def test_q24_mcp_configurations_of_a_user_replaced_as_a_whole_or_not_at_all(record: Record) -> None:
    path = "/v1/mcp/users/user_1/configs"
    shown = await record.client.get(path)
    assert [item["name"] for item in shown.json()["items"]] == ["own", "search"]
    enabled = await record.get("/mcp/configs", user_id="user_1", has_server="false", enabled="true", order="asc")
    rows = record.rows("mcp.user_server_configs", server_id=None, enabled=True)
    assert ids(enabled["items"]) == ids(rows, "usco_id")
    items = [{"name": "own", "config": {"command": "uvx"}}]
    saved = await record.client.put(path, json={"items": items}, headers={"if-match": shown.headers["etag"]})
    assert [item["name"] for item in saved.json()["items"]] == ["own"]
    late = await record.client.put(path, json={"items": []}, headers={"if-match": shown.headers["etag"]})
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")


async def test_q25_keys_without_their_secrets(record: Record) -> None:
    made = await record.client.post(
        "/v1/api-keys", json={"name": "worker", "scopes": ["invocations:write"], "expires_at": "2099-01-01T00:00:00Z"}
    )
    listed = await record.get("/api-keys")
    key = next(item for item in listed["items"] if item["name"] == "worker")
    assert (key["scopes"], key["revoked_at"]) == (["invocations:write"], None)
    assert made.json()["key"] not in str(listed)


async def test_q26_run_state_and_cancellation(record: Record) -> None:
    version = record.version["wf_version_id"]
    await record.client.post("/v1/invocations", json={"id": "live", "version_id": version})
    await record.client.post("/v1/invocations/live/cancel", json={})
    shown = await record.get("/invocations/live", include="")
    assert (shown["status"], shown["ended_at"]) == ("running", None)
    assert shown["cancel_requested_at"] is not None
    await record.client.post("/v1/invocations/live/end", json={"status": "cancelled"})
    assert (await record.get("/invocations/live", include=""))["status"] == "cancelled"
