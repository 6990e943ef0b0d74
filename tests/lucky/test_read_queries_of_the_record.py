"""Q1 to Q9, Q14 to Q16: what the web application and its tools ask of invocations, traces and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lucky.conftest import Importer
from tests.lucky.generator import Dump
from tests.lucky.reading import Record, accuracy, cost, ids, score


@pytest.fixture
async def record(importer: Importer, tmp_path: Path) -> Record:
    """An imported dump of two runs."""
    dump = Dump(9, runs=2, generations=2, size=3)
    dump.row("WorkflowInvocation", 1)["status"] = "failed"
    for number, row in enumerate(dump.rows["WorkflowInvocation"]):
        row["start_time"] = f"2025-09-01T10:00:{number:02}+00:00"
        row["end_time"] = f"2025-09-01T10:0{number % 5 + 1}:00+00:00"
    await importer.run(dump.write(tmp_path))
    return Record(dump, importer.client)


async def test_q01_invocation_list_filtered_sorted_and_summed_over_the_whole_filtered_set(record: Record) -> None:
    wanted = [r for r in record.rows("WorkflowInvocation", status="completed") if score(r) >= 10 and accuracy(r) <= 90]
    where = "status=completed&min_fitness_score=10&max_accuracy=90&min_usd_cost=0&has_accuracy=true"
    where += "&started_after=2025-09-01T00:00:00Z"
    page, summary = await record.batch(
        f"/invocations?{where}&sort=fitness_score&order=desc&limit=2&count=exact&include=workflow_description",
        f"/invocations/summary?{where}",
    )
    best = sorted(wanted, key=score, reverse=True)
    assert (ids(page["items"]), page["total"]) == (ids(best[:2], "wf_invocation_id"), len(wanted))
    descriptions = {row["wf_id"]: row["description"] for row in record.rows("Workflow")}
    for item in page["items"]:
        assert item["workflow_description"] == descriptions[item["workflow_id"]]
        assert item["version_id"]
    assert summary["usd_cost"]["sum"] == pytest.approx(float(cost(wanted)), abs=1e-12)
    assert summary["avg_accuracy"] == pytest.approx(sum(map(accuracy, wanted)) / len(wanted))
    assert summary["by_status"] == {"completed": len(wanted)}


@pytest.mark.parametrize(
    "sort", ["started_at", "ended_at", "status", "usd_cost", "accuracy", "fitness_score", "duration", "run_id",
             "generation_id", "version_id"],
)  # fmt: skip
async def test_q01_every_sort_of_the_invocation_list(record: Record, sort: str) -> None:
    forwards = ids((await record.get("/invocations", sort=sort, order="asc"))["items"])
    backwards = ids((await record.get("/invocations", sort=sort, order="desc"))["items"])
    assert forwards == backwards[::-1]
    assert len(forwards) == len(record.rows("WorkflowInvocation"))


async def test_q02_invocation_detail_with_version_and_workflow(record: Record) -> None:
    name = record.invocation["wf_invocation_id"]
    trace = await record.get(f"/invocations/{name}/trace", limit=1)
    detail = trace["invocation"]
    assert (detail["input"], detail["fitness"]) == (record.invocation["workflow_input"], record.invocation["fitness"])
    workflow = record.rows("Workflow", wf_id=detail["workflow_id"])[0]
    assert (trace["workflow"]["id"], trace["workflow"]["description"]) == (workflow["wf_id"], workflow["description"])
    assert (trace["version"]["id"], trace["version"]["dsl"]) == (
        record.invocation["wf_version_id"], record.version["dsl"],
    )  # fmt: skip


async def test_q03_full_trace_with_each_payload_once(record: Record) -> None:
    name = record.invocation["wf_invocation_id"]
    trace = await record.get(f"/invocations/{name}/trace")
    nodes = record.rows("NodeInvocation", wf_invocation_id=name)
    messages = record.rows("Message", wf_invocation_id=name)
    assert ids(trace["nodes"]) == ids(nodes, "node_invocation_id")
    assert sorted(ids(trace["messages"])) == sorted(ids(messages, "msg_id"))
    for node in trace["nodes"]:
        assert node["node_version"]["system_prompt"]
        assert node["messages_in"] == [m["msg_id"] for m in messages if m["target_invocation_id"] == node["id"]]
        assert node["messages_out"] == [m["msg_id"] for m in messages if m["origin_invocation_id"] == node["id"]]


async def test_q04_trace_metrics(record: Record) -> None:
    name = record.invocation["wf_invocation_id"]
    metrics = await record.get(f"/invocations/{name}/trace/metrics")
    nodes = record.rows("NodeInvocation", wf_invocation_id=name)
    assert (metrics["node_invocation_count"], metrics["duration_seconds"]) == (len(nodes), 60.0)
    assert metrics["usd_cost"] == pytest.approx(record.invocation["usd_cost"])
    assert metrics["bottleneck"]["node_invocation_id"] in ids(nodes, "node_invocation_id")
    assert metrics["tools"] == []


async def test_q05_live_trace_polling_shows_what_is_there_so_far(record: Record) -> None:
    made = await record.client.post(
        "/v1/invocations", json={"id": "live", "version_id": record.version["wf_version_id"]}
    )
    assert made.status_code == 201
    before = await record.get("/invocations/live/trace")
    await record.client.post("/v1/invocations/live/nodes", json={"id": "n", "node_id": "plan"})
    await record.client.post("/v1/invocations/live/heartbeat")
    after = await record.get("/invocations/live/trace")
    assert (ids(before["nodes"]), ids(after["nodes"])) == ([], ["n"])
    assert (after["invocation"]["ended_at"], after["nodes"][0]["ended_at"]) == (None, None)
    assert after["invocation"]["heartbeat_at"] is not None


async def test_q06_node_invocation_page_with_its_configuration_inputs_and_outputs(record: Record) -> None:
    node = record.rows("NodeInvocation")[0]
    within = f"/invocations/{node['wf_invocation_id']}"
    ran, told, wrote, configured = await record.batch(
        f"{within}/nodes/{node['node_invocation_id']}?include=output",
        f"{within}/messages?target={node['node_invocation_id']}&include=payload",
        f"{within}/messages?origin={node['node_invocation_id']}&include=payload",
        f"/versions/{node['wf_version_id']}/nodes?node_id={node['node_id']}",
    )
    assert ran["output"] == node["output"]
    assert ids(told["items"]) == [m["msg_id"] for m in record.rows("Message", target_invocation_id=ran["id"])]
    assert ids(wrote["items"]) == [m["msg_id"] for m in record.rows("Message", origin_invocation_id=ran["id"])]
    assert ran["node_version_id"] in ids(configured["items"])


async def test_q07_nodes_configurations_and_messages_of_a_run_or_a_version(record: Record) -> None:
    name, version = record.invocation["wf_invocation_id"], record.version["wf_version_id"]
    nodes, everywhere, configured, messages = await record.batch(
        f"/invocations/{name}/nodes",
        f"/node-invocations?version_id={version}&node_id=plan&order=asc",
        f"/versions/{version}/nodes",
        f"/invocations/{name}/messages",
    )
    assert ids(nodes["items"]) == ids(record.rows("NodeInvocation", wf_invocation_id=name), "node_invocation_id")
    ran = record.rows("NodeInvocation", wf_version_id=version, node_id="plan")
    assert ids(everywhere["items"]) == ids(ran, "node_invocation_id")
    assert ids(configured["items"]) == ids(record.rows("NodeVersion", wf_version_id=version), "node_version_id")
    assert len(messages["items"]) == len(record.rows("Message", wf_invocation_id=name))


async def test_q08_run_inspector_with_its_statistics_flow_costs_and_errors(record: Record) -> None:
    name = record.dump.row("WorkflowInvocation", 1)["wf_invocation_id"]
    metrics, failures, nodes, messages = await record.batch(
        f"/invocations/{name}/trace/metrics",
        f"/invocations/{name}/failures?include=payload",
        f"/invocations/{name}/summaries",
        f"/invocations/{name}/messages?include=payload",
    )
    ran = record.rows("NodeInvocation", wf_invocation_id=name)
    assert (metrics["node_invocation_count"], metrics["message_count"]) == (len(ran), 2)
    assert [(flow["from_node_id"], flow["to_node_id"]) for flow in metrics["flow"]] == [
        ("start", "plan"), ("start", "search"),
    ]  # fmt: skip
    costs = {node["node_id"]: node["usd_cost"] for node in metrics["nodes"]}
    assert costs == {row["node_id"]: pytest.approx(row["usd_cost"]) for row in ran}
    assert metrics["dearest_node"]["usd_cost"] == pytest.approx(max(row["usd_cost"] for row in ran))
    assert metrics["avg_usd_cost_per_node"] == pytest.approx(sum(row["usd_cost"] for row in ran) / len(ran))
    assert "invocation" in {failure["kind"] for failure in failures["items"]}
    assert (len(nodes["items"]), len(messages["items"])) == (2, 2)


async def test_q09_node_summaries_of_one_node_too(record: Record) -> None:
    name = record.invocation["wf_invocation_id"]
    found = await record.get(f"/invocations/{name}/summaries", node_id="search")
    assert [(item["node_id"], item["summary"]) for item in found["items"]] == [
        (row["node_id"], row["summary"])
        for row in record.rows("NodeInvocation", wf_invocation_id=name, node_id="search")
    ]


async def test_q14_invocations_by_run_by_generation_and_by_version(record: Record) -> None:
    version = await record.get("/invocations", version_id=record.version["wf_version_id"])
    rows = record.rows("WorkflowInvocation", wf_version_id=record.version["wf_version_id"])
    assert ids(version["items"]) == ids(rows, "wf_invocation_id")
    run = await record.get("/invocations", linked_run_id=record.run["run_id"], order="desc")
    assert ids(run["items"]) == ids(record.invocations_of_run(record.run), "wf_invocation_id")[::-1]
    members = {
        r["wf_version_id"] for r in record.rows("WorkflowVersion", generation_id=record.generation["generation_id"])
    }
    generation = await record.get("/invocations", generation_id=record.generation["generation_id"], order="asc")
    assert ids(generation["items"]) == [
        r["wf_invocation_id"] for r in record.rows("WorkflowInvocation") if r["wf_version_id"] in members
    ]


async def test_q15_versions_by_generation(record: Record) -> None:
    generation = record.generation["generation_id"]
    found = await record.get("/versions", generation_id=generation, order="asc")
    assert ids(found["items"]) == ids(record.rows("WorkflowVersion", generation_id=generation), "wf_version_id")


async def test_q16_latest_versions(record: Record) -> None:
    found = await record.get("/versions", limit=10)
    assert ids(found["items"]) == ids(record.rows("WorkflowVersion")[::-1][:10], "wf_version_id")
