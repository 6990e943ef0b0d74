"""What becomes of the rows: payloads and times as they were, parents kept, links found, numbers unrounded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lucky.conftest import Importer
from tests.lucky.generator import Dump

DSL = b'{ "b":1.0,  "a":[1e400,"\\u0000","\\ud83d"],"nodes":[{"id":"plan"}], "b2": 12345678901234567890 }'
OUTPUT = '{"text":  "\\u00fc ü", "workDone":true,"fromNodeId":1.50}'


def small(**changes: Any) -> Dump:
    """A dump with one run, one generation of two versions, and an invocation of each."""
    return Dump(7, changes.pop("columns", "new"), runs=1, generations=changes.pop("generations", 1), size=2)


async def test_payloads_and_times_come_back_as_they_are_in_the_file(importer: Importer, tmp_path: Path) -> None:
    dump = small()
    version, invocation = dump.row("WorkflowVersion"), dump.row("WorkflowInvocation")
    version["dsl"] = "DSL"
    version["created_at"] = "2025-08-15 12:34:56.789012+00"
    invocation |= {"workflow_output": "OUTPUT", "start_time": "2025-08-15T14:34:56.789013+02:00", "usd_cost": "COST"}
    folder = dump.write(tmp_path)
    for path in folder.iterdir():
        text = path.read_bytes().replace(b'"DSL"', DSL).replace(b'"OUTPUT"', OUTPUT.encode())
        path.write_bytes(text.replace(b'"COST"', b"0.012300000000000001"))
    await importer.run(folder)
    dsl = await importer.client.get(f"/v1/versions/{version['wf_version_id']}/dsl")
    assert dsl.content == DSL
    assert (await importer.get(f"/v1/versions/{version['wf_version_id']}"))["created_at"] == (
        "2025-08-15T12:34:56.789012Z"
    )
    shown = await importer.client.get(f"/v1/invocations/{invocation['wf_invocation_id']}?include=output,input,fitness")
    assert f'"output":{OUTPUT},'.encode() in shown.content
    assert b'"usd_cost":0.012300000000000001,' in shown.content
    assert shown.json()["started_at"] == "2025-08-15T12:34:56.789013Z"
    assert f'"fitness":{json.dumps(invocation["fitness"])}'.encode() in shown.content
    trace = await importer.get(f"/v1/invocations/{invocation['wf_invocation_id']}/trace")
    nodes = [row for row in dump.rows["NodeInvocation"] if row["wf_invocation_id"] == invocation["wf_invocation_id"]]
    assert [node["id"] for node in trace["nodes"]] == [node["node_invocation_id"] for node in nodes]
    assert [node["node_version"]["node_id"] for node in trace["nodes"]] == ["plan", "search"]
    assert [len(node["messages_in"]) for node in trace["nodes"]] == [1, 1]
    assert [len(node["messages_out"]) for node in trace["nodes"]] == [1, 0]
    payload = {"kind": "delegation", "berichten": [{"type": "text", "text": "workDone fromNodeId"}]}
    assert trace["messages"][0]["payload"] == payload


@pytest.mark.parametrize(
    ("fitness", "columns", "expected"),
    [
        ({"score": 81.25, "feedback": "f", "totalCost": 1}, {}, (81.25, None)),
        ({"data": {"score": 0.125, "feedback": "f", "dataAccuracy": 66.6}}, {}, (0.125, 66.6)),
        ({"success": True, "data": {"score": 3, "accuracy": 99.5, "feedback": ""}}, {}, (3.0, 99.5)),
        (82, {}, (82.0, None)),
        (None, {"fitness_score": 7, "accuracy": 8}, (7.0, 8.0)),
        ({"data": {"score": 81.25, "accuracy": 66.6}}, {"fitness_score": 81, "accuracy": 67}, (81.25, 66.6)),
        ({"score": 81.25}, {"fitness_score": 12, "accuracy": 0}, (12.0, 0.0)),
        ({"score": "high", "accuracy": None}, {}, (None, None)),
    ],
)
async def test_scores_are_taken_unrounded_from_every_shape_of_fitness(
    importer: Importer, tmp_path: Path, fitness: Any, columns: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    dump = small()
    invocation = dump.row("WorkflowInvocation")
    invocation |= {"fitness": fitness, **columns}
    await importer.run(dump.write(tmp_path))
    shown = await importer.get(f"/v1/invocations/{invocation['wf_invocation_id']}", include="fitness")
    assert (shown["fitness_score"], shown["accuracy"]) == expected
    assert shown["fitness"] == fitness


async def test_invocations_without_links_are_linked_through_their_version(importer: Importer, tmp_path: Path) -> None:
    dump = small()
    run, generation = dump.row("EvolutionRun"), dump.row("Generation")
    for row in dump.rows["WorkflowInvocation"]:
        row |= {"run_id": None, "generation_id": None}
    dump.rows["WorkflowVersion"][1]["generation_id"] = None
    report = await importer.run(dump.write(tmp_path))
    listed = await importer.get("/v1/invocations", run_id=run["run_id"], generation_id=generation["generation_id"])
    assert [item["id"] for item in listed["items"]] == [dump.row("WorkflowInvocation")["wf_invocation_id"]]
    assert listed["items"][0]["extras"]["lucky"] == {"generation_id_from_version": True, "run_id_from_generation": True}
    notes = report.of("WorkflowInvocation").notes
    assert notes["run_id was null and is that of its generation"].count == 1


async def test_parents_survive_the_import_wherever_they_stand(importer: Importer, tmp_path: Path) -> None:
    dump = Dump(8, runs=1, generations=4, size=3)
    dump.rows["WorkflowVersion"].reverse()
    await importer.run(dump.write(tmp_path))
    for row in dump.rows["WorkflowVersion"]:
        stored = await importer.get(f"/v1/versions/{row['wf_version_id']}")
        for name in ("operation", "parent1_id", "parent2_id", "generation_id", "commit_message"):
            assert stored[name] == row[name]
        assert stored["parents_unknown"] is False


@pytest.mark.parametrize(
    ("operation", "parents", "expected", "unknown"),
    [
        ("mutation", (None, None, "b"), ("b", None), False),
        ("mutation", ("b", None, "b"), ("b", None), False),
        ("crossover", ("b", None, "c"), ("b", "c"), False),
        ("crossover", ("b", "b", None), ("b", "b"), False),
        ("mutation", (None, None, None), (None, None), True),
        ("mutation", ("b", "c", None), ("b", "c"), True),
        ("init", ("b", None, None), ("b", None), True),
        ("crossover", ("lost", "c", None), ("c", None), True),
        ("mutation", ("lost", None, None), (None, None), True),
        ("mutation", ("a", None, "b"), ("b", None), True),
        ("crossover", ("b", "c", "d"), ("b", "c"), False),
    ],
)
async def test_parents_that_are_known_stay_and_others_are_said_to_be_unknown(
    importer: Importer,
    tmp_path: Path,
    operation: str,
    parents: tuple[str | None, ...],
    expected: tuple[str | None, ...],
    unknown: bool,
) -> None:
    dump = small()
    for name in "abcd":
        version = dump.add(
            "WorkflowVersion", wf_version_id=name, workflow_id=dump.row("Workflow")["wf_id"], operation="init",
            generation_id=None, parent_id=None, parent1_id=None, parent2_id=None,
        )  # fmt: skip
        if name == "a":
            version |= dict(zip(("parent1_id", "parent2_id", "parent_id"), parents, strict=True))
            version["operation"] = operation
    report = await importer.run(dump.write(tmp_path))
    stored = await importer.get("/v1/versions/a")
    assert (stored["operation"], stored["parent1_id"], stored["parent2_id"]) == (operation, *expected)
    assert stored["parents_unknown"] is unknown
    told = "".join(row for note in report.of("WorkflowVersion").notes.values() for row in note.rows)
    assert (": a " in told) is (unknown or "d" in parents)
    for lost in {"lost", "d"} & set(parents):
        assert lost in told


async def test_a_number_that_comes_twice_in_a_run_goes_to_the_first_and_both_stay(
    importer: Importer, tmp_path: Path
) -> None:
    dump = small(generations=3)
    rows = dump.rows["Generation"]
    rows[1]["number"] = rows[0]["number"] = 0
    report = await importer.run(dump.write(tmp_path))
    assert (await importer.run(tmp_path)).new == 0
    async with importer.database.reading() as reader:
        found = await reader.connection.fetch(
            "SELECT id, number, best_version_id FROM generations WHERE tenant_id = $1", importer.tenant
        )
    assert {row["id"]: row["number"] for row in found} == {
        rows[0]["generation_id"]: 0, rows[1]["generation_id"]: 3, rows[2]["generation_id"]: 2,
    }  # fmt: skip
    assert {row["best_version_id"] for row in found} == {row["best_workflow_version_id"] for row in rows}
    (note,) = report.of("Generation").notes.values()
    assert note.rows == [
        f"line 3: {rows[1]['generation_id']} number 0 of run {rows[1]['run_id']} is now 3"
    ] or note.rows == [f"line 2: {rows[1]['generation_id']} number 0 of run {rows[1]['run_id']} is now 3"]


async def test_who_was_in_a_generation_is_told_by_its_invocations(importer: Importer, tmp_path: Path) -> None:
    dump = small(generations=2)
    first, second = (row["generation_id"] for row in dump.rows["Generation"])
    moved = dump.row("WorkflowVersion")
    moved["generation_id"] = second
    dump.row("WorkflowInvocation").update(generation_id=first, fitness={"score": 0.125})
    await importer.run(dump.write(tmp_path))
    for generation, count in ((first, 2), (second, 3)):
        members = (await importer.get(f"/v1/generations/{generation}/members"))["items"]
        assert len(members) == count
        fitness = {member["version_id"]: member["fitness"] for member in members}
        assert fitness[moved["wf_version_id"]] == (0.125 if generation == first else None)


async def test_evaluations_datasets_and_their_versions_come_too(importer: Importer, tmp_path: Path) -> None:
    dump = small()
    told = dump.row("WorkflowInvocationEval")
    dump.rows["WorkflowInvocationEval"][1]["wf_inv_id"] = None
    report = await importer.run(dump.write(tmp_path))
    (shown,) = (await importer.get(f"/v1/invocations/{told['wf_inv_id']}/evaluations"))["items"]
    assert (shown["accuracy"], shown["feedback"]) == (told["accuracy"], told["feedback"])
    assert report.of("WorkflowInvocationEval").left_out.total() == 1
    answer = await importer.client.post("/v1/dataset-records/lookup", json={"ids": ["dr_1", "dr_0"]})
    assert [item["dataset_version_id"] for item in answer.json()["items"]] == ["dsv_1", None]
    dump.row("DatasetRecord", 1)["dataset_version_id"] = "dsv_2"
    dump.add("DatasetVersion", dataset_version_id="dsv_2", dataset_id="ds_2")
    dump.add("DataSet", dataset_id="ds_2")
    (problem,) = await importer.refuses(dump.write(tmp_path))
    assert "dr_1" in problem


async def test_the_registry_comes_without_a_secret(importer: Importer, tmp_path: Path) -> None:
    dump = small()
    config = dump.row("mcp.user_server_configs", 0)
    again = dump.add("mcp.user_server_configs", **{**config, "usco_id": "usco_again", "config_json": {"url": "u"}})
    secret = dump.add(
        "mcp.user_server_configs",
        **{**config, "usco_id": "usco_s", "config_json": {"headers": {"X": "9c41-value"}}},
    )
    unreachable = dump.add(
        "mcp.user_server_configs", **{**config, "usco_id": "usco_u", "server_id": None, "config_json": {}}
    )
    config["secrets_json"] = {"API_KEY": "9c41-value"}
    again["created_at"] = "2025-09-01T00:00:00Z"
    report = await importer.run(dump.write(tmp_path))
    shown = await importer.client.get("/v1/mcp/users/user_1/configs")
    assert {item["id"]: item["name"] for item in shown.json()["items"]} == {
        "usco_search": "search", "usco_own": "own", "usco_again": "search (usco_again)",
    }  # fmt: skip
    assert shown.headers["etag"] == '"1"'
    assert b"9c41-value" not in shown.content
    part = report.of("mcp.user_server_configs")
    assert (part.left_out.total(), part.columns_left_out["secrets_json"]) == (2, len(dump.rows[part.source]))
    told = [row for note in part.notes.values() for row in note.rows]
    for row in (secret, unreachable):
        assert any(row["usco_id"] in line for line in told)
    tools = await importer.get("/v1/mcp/servers/srv_1/versions/sver_1/tools")
    assert sorted(item["name"] for item in tools["items"]) == ["read", "search"]
    version = await importer.get("/v1/mcp/servers/srv_1/versions/sver_1")
    assert version["capabilities"] == dump.row("mcp.server_versions")["capabilities_json"]
    assert (await importer.run(tmp_path)).new == 0


async def test_times_that_a_status_does_not_have_are_kept_beside_and_missing_ends_are_found(
    importer: Importer, tmp_path: Path
) -> None:
    dump = small()
    running, failed = dump.rows["WorkflowInvocation"]
    run = dump.row("EvolutionRun")
    run |= {"status": "failed", "end_time": None}
    dump.row("Generation")["end_time"] = "2025-09-01T00:00:00.000001+00:00"
    running["status"] = "running"
    failed |= {"status": "failed", "end_time": None}
    last = dump.rows["NodeInvocation"][-1]
    last |= {"status": "rolled_back", "end_time": None, "error": "it broke"}
    await importer.run(dump.write(tmp_path))
    shown = await importer.get(f"/v1/invocations/{running['wf_invocation_id']}")
    assert (shown["status"], shown["ended_at"]) == ("running", None)
    assert shown["extras"]["lucky"]["end_time"] == running["end_time"]
    assert (await importer.get(f"/v1/evolution-runs/{run['run_id']}"))["ended_at"] == "2025-09-01T00:00:00.000001Z"
    trace = await importer.get(f"/v1/invocations/{failed['wf_invocation_id']}/trace")
    assert trace["invocation"]["extras"]["lucky"]["end_time_unknown"] is True
    node = trace["nodes"][-1]
    assert trace["invocation"]["ended_at"] == node["ended_at"] == node["started_at"]
    assert (node["status"], node["error"]) == ("failed", {"message": "it broke"})
    assert node["extras"]["lucky"] == {"status": "rolled_back", "error": "it broke", "end_time_unknown": True}


async def test_a_queued_invocation_has_not_started(importer: Importer, tmp_path: Path) -> None:
    dump = small()
    queued = dump.row("WorkflowInvocation")
    queued |= {"status": "queued", "end_time": None}
    await importer.run(dump.write(tmp_path))
    shown = await importer.get(f"/v1/invocations/{queued['wf_invocation_id']}")
    assert (shown["status"], shown["started_at"]) == ("queued", None)
    assert shown["extras"]["lucky"]["start_time"] == queued["start_time"]


async def test_configurations_that_come_again_are_one_revision_and_nodes_follow(
    importer: Importer, tmp_path: Path
) -> None:
    dump = small()
    first = dump.row("NodeVersion")
    again = dict(first) | {"node_version_id": "nv_again", "version": 5}
    other = dict(first) | {"node_version_id": "nv_other", "llm_model": "m-2", "created_at": "2025-08-01T11:00:00Z"}
    dump.rows["NodeVersion"] += [again, other]
    version = dump.row("WorkflowVersion")["wf_version_id"]
    ran = [row for row in dump.rows["NodeInvocation"] if row["wf_version_id"] == version]
    ran[0]["node_version_id"] = "nv_again"
    ran[1]["node_id"] = "nobody"
    report = await importer.run(dump.write(tmp_path))
    nodes = (await importer.get(f"/v1/versions/{version}/nodes", node_id="plan"))["items"]
    assert [(node["id"], node["revision"]) for node in nodes] == [("nv_other", 1), (first["node_version_id"], 2)]
    assert report.of("NodeVersion").left_out.total() == 1
    trace = await importer.get(f"/v1/invocations/{ran[0]['wf_invocation_id']}/trace")
    assert trace["nodes"][0]["node_version"]["id"] == first["node_version_id"]
    assert trace["nodes"][1]["node_version"]["extras"] == {"lucky": {"made_by_import": True}}
    assert (await importer.run(tmp_path)).new == 0


async def test_what_has_no_column_is_kept_beside_or_named(importer: Importer, tmp_path: Path) -> None:
    dump = small(columns="old")
    workflow, version = dump.row("Workflow"), dump.row("WorkflowVersion")
    invocation, node = dump.row("WorkflowInvocation"), dump.row("NodeInvocation")
    workflow["stars"] = {"n": [1.5]}
    version |= {"mood": "good", "all_workflow_io": [{"workflowInput": 1, "workflowOutput": {"output": 2.50}}]}
    invocation |= {"workflow_io": {"workflowInput": {"q": 1.0}, "workflowOutput": "a"}, "colour": "red"}
    invocation |= {"workflow_input": None, "workflow_output": None, "evaluation_inputs": [1], "extras": ["x"]}
    node["wf_invocation_id"] = None
    dump.rows["Mystery"] = [{"a": 1}]
    report = await importer.run(dump.write(tmp_path))
    assert (await importer.get(f"/v1/workflows/{workflow['wf_id']}"))["metadata"] == {"lucky": {"stars": {"n": [1.5]}}}
    shown = await importer.get(f"/v1/invocations/{invocation['wf_invocation_id']}", include="input,output")
    assert (shown["input"], shown["output"], shown["novelty"]) == ({"q": 1.0}, "a", invocation["novelty"])
    kept = shown["extras"]["lucky"]
    assert (kept["workflow_io"], kept["colour"]) == (invocation["workflow_io"], "red")
    assert (kept["evaluation_inputs"], kept["value"]) == ([1], ["x"])
    io = await importer.client.get(f"/v1/versions/{version['wf_version_id']}/io")
    assert io.content == b'[{"workflowInput": 1, "workflowOutput": {"output": 2.5}}]'
    assert report.of("WorkflowVersion").columns_left_out["mood"] == 1
    assert report.of("Mystery").left_out == {"no table of Lucky has this name": 1}
    reason = "belongs to no workflow invocation: its wf_invocation_id is null"
    assert report.of("NodeInvocation").left_out == {reason: 1}
    assert node["node_invocation_id"] in report.of("NodeInvocation").notes[reason].rows[0]
