"""The client's calls against the running service: what one sends, the other understands."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.client import (
    AsyncCairn,
    Cairn,
    ConflictError,
    DatasetRecordNotFoundError,
    ForbiddenError,
    InvalidInputError,
    Json,
    NodeVersionMissingError,
    PreconditionFailedError,
    Retry,
    UnauthenticatedError,
    UnreachableError,
    VersionNotFoundError,
    WorkflowNotFoundError,
)
from app.client.bodies import ActionFields, MessageFields, NodeFields
from app.client.operations import Event
from tests.conftest import ADMIN_KEY
from tests.e2e.conftest import Served

HOSTILE = Json(r'{"b": [1.0, 1e400, "cut \ud83d \u0000"],  "a": 9223372036854775809, "a": null}')


def test_tenants_and_keys(served: Served, cairn: Cairn) -> None:
    beta = f"{served.tenant}-beta"
    with Cairn(served.url, key=ADMIN_KEY) as operator:
        assert operator.tenants.ensure(beta, name="Beta").id == beta
        assert operator.tenants.patch(beta, metadata={"plan": "free"}).name == "Beta"
        assert {tenant.id for tenant in operator.tenants.list()} >= {served.tenant, beta}
        operator.tenants.set_limits(beta, {})
        assert dict(operator.tenants.limits(beta)) == {}
        with pytest.raises(InvalidInputError, match="tenant_required"):
            operator.workflows.get("wf_1")
        assert list(operator.using(tenant=beta).workflows.list()) == []
    made = cairn.api_keys.create("reader", ["workflows:read"])
    assert made.key is not None
    with Cairn(served.url, key=made.key) as reader:
        assert list(reader.workflows.list()) == []
        with pytest.raises(ForbiddenError):
            reader.workflows.create("wf_1")
    rotated = cairn.api_keys.rotate(made.id)
    assert rotated.key not in (None, made.key)
    assert cairn.api_keys.revoke(made.id).revoked_at is not None
    assert {key.name for key in cairn.api_keys.list()} == {"tests", "reader"}
    with Cairn(served.url, key="wrong") as stranger, pytest.raises(UnauthenticatedError):
        stranger.workflows.list().page()


async def test_workflows_in_both_modes(served: Served, cairn: Cairn) -> None:
    hard = "a/versions ?#[%..ü"
    made = cairn.workflows.create(hard, name="Hard", metadata={"n": 1})
    assert (made.id, made.name, made.metadata) == (hard, "Hard", {"n": 1})
    assert made.reply is not None
    assert made.reply.status == 201
    again = cairn.workflows.create(hard, name="Hard", metadata={"n": 1})
    assert again.reply is not None
    assert again.reply.status == 200
    with pytest.raises(ConflictError):
        cairn.workflows.create(hard, name="Soft")
    read = cairn.workflows.get(hard)
    patched = cairn.using(if_match=read.etag).workflows.patch(hard, description="d")
    with pytest.raises(PreconditionFailedError):
        cairn.using(if_match=read.etag).workflows.patch(hard, description="e")
    assert patched.etag != read.etag
    async with AsyncCairn(served.url, key=served.key) as other:
        for number in range(5):
            await other.workflows.ensure(f"wf_{number}")
        listed = [workflow.id async for workflow in other.workflows.list(limit=2, sort="created_at", order="asc")]
        assert listed == [hard, *(f"wf_{number}" for number in range(5))]
        assert (await other.workflows.list(limit=1, count="exact").page()).total == 6
        assert await other.workflows.delete("wf_0") is None
        with pytest.raises(WorkflowNotFoundError):
            await other.workflows.get("wf_0")


def version(cairn: Cairn, **fields: Any) -> str:
    nodes: list[NodeFields] = [{"node_id": "plan", "llm_model": "small", "memory": {"a": 1}}, {"node_id": "do"}]
    return cairn.versions.create("wf_1", dsl=HOSTILE, workflow={"name": "One"}, nodes=nodes, **fields).id


def test_versions_keep_their_dsl(cairn: Cairn) -> None:
    version_id = version(cairn, operation="init")
    assert version(cairn, operation="init") == version_id
    assert cairn.versions.exists(version_id)
    assert not cairn.versions.exists("another")
    assert cairn.versions.dsl(version_id) == HOSTILE
    read = cairn.versions.get(version_id, include=["dsl"])
    assert (read.dsl, read.workflow_id, read.parents_unknown) == (HOSTILE, "wf_1", False)
    assert [one.dsl for one in cairn.versions.list()] == [None]
    kept = cairn.versions.create("wf_1", id=version_id, dsl=HOSTILE, on_existing="keep")
    child = cairn.versions.create("wf_1", id="child", dsl={"n": 1}, operation="mutation", parent1_id=kept.id)
    assert [one.id for one in cairn.versions.list(parent_id=version_id)] == [child.id]
    assert {one.id for one in cairn.versions.list_of("wf_1")} == {version_id, "child"}
    assert [one.id for one in cairn.versions.list(latest=True)] == ["child"]
    assert list(cairn.versions.list(latest=True, owner_id="nobody")) == []
    assert cairn.versions.latest().id == cairn.versions.latest("wf_1").id == "child"
    cairn.versions.set_io(version_id, HOSTILE)
    assert cairn.versions.io(version_id) == HOSTILE
    with pytest.raises(VersionNotFoundError):
        cairn.versions.get("another")


async def test_relatives_of_versions_in_both_modes(served: Served, cairn: Cairn) -> None:
    cairn.versions.create("wf_1", id="a/1", dsl=Json('{"x": 1}'), workflow={})
    cairn.versions.create("wf_1", id="b", dsl=Json('{"x": 1.0}'), operation="mutation", parent1_id="a/1")
    cairn.versions.create("wf_1", id="c", dsl={}, operation="mutation", parent1_id="b")
    assert [(one.id, one.depth) for one in cairn.versions.ancestors("c", limit=1)] == [("b", 1), ("a/1", 2)]
    assert [one.id for one in cairn.versions.descendants("a/1", max_depth=1)] == ["b"]
    common = cairn.versions.common_ancestors("b", "c", include=["dsl"]).page().items[0]
    assert (common.id, common.depth_a, common.depth_b, common.dsl) == ("b", 0, 1, Json('{"x": 1.0}'))
    difference = cairn.versions.diff("a/1", "b")
    assert (difference["from"], difference.to) == ("a/1", "b")
    assert difference.raw("patch").text == '[{"op":"replace","path":"/x","value":1.0}]'
    async with AsyncCairn(served.url, key=served.key) as other:
        graph = await other.workflows.genealogy("wf_1")
    assert [(node.id, node.outside) for node in graph.nodes] == [("c", False), ("b", False), ("a/1", False)]
    assert graph.edges[-1] == {"from": "a/1", "to": "b", "kind": "parent1"}
    assert graph.more == {"versions": None}


def test_an_invocation_from_queue_to_end(cairn: Cairn) -> None:
    version_id = version(cairn)
    made = cairn.invocations.create(id="inv/1", version_id=version_id, status="queued", input=HOSTILE)
    assert (made.status, made.input, made.started_at) == ("queued", None, None)
    started_at = datetime(2026, 1, 5, 10, 0, 0, 123456, tzinfo=UTC)
    assert cairn.invocations.start("inv/1", started_at=started_at).started_at == started_at
    assert cairn.invocations.heartbeat("inv/1").cancel_requested_at is None
    assert cairn.invocations.cancel("inv/1").cancel_requested_at is not None
    cost = Decimal("12345678901234567890.123456789012345678")
    ended = cairn.invocations.end("inv/1", status="completed", output=HOSTILE, usd_cost=cost, include=["output"])
    assert (ended.output, ended.usd_cost, ended.status) == (HOSTILE, cost, "completed")
    assert cairn.invocations.get("inv/1", include=["input"]).input == HOSTILE
    assert cairn.invocations.patch("inv/1", fitness_score=0.82, metadata={"w": "x"}).fitness_score == 0.82
    with pytest.raises(ConflictError) as caught:
        cairn.invocations.end("inv/1", status="failed")
    assert caught.value.facts["current_status"] == "completed"
    found = cairn.invocations.list(
        status=["completed", "failed"], min_usd_cost=cost, has_fitness_score=True, metadata={"w": "x"},
        started_after=started_at, workflow_id="wf_1", sort="usd_cost", include=["input", "output"],
    )  # fmt: skip
    assert [(one.id, one.input, one.output) for one in found] == [("inv/1", HOSTILE, HOSTILE)]
    assert cairn.invocations.summary(status="completed")["usd_cost"]["sum"] == cost
    assert (
        cairn.invocations.cancel(cairn.invocations.create(version_id=version_id).id, force=True).status == "cancelled"
    )
    cairn.invocations.delete("inv/1")
    assert len(list(cairn.invocations.list())) == 1


def test_nodes_of_a_version_and_their_memory(cairn: Cairn) -> None:
    version_id = version(cairn)
    assert cairn.nodes.record(version_id, node_id="plan", llm_model="large", tools=["bash"]).revision == 2
    many = cairn.nodes.record_many(version_id, [{"node_id": "plan", "llm_model": "large"}, {"node_id": "sum"}])
    assert [(one.node_id, one.revision) for one in many] == [("plan", 3), ("sum", 1)]
    assert len(list(cairn.nodes.list(version_id, limit=2))) == 5
    assert {one.revision for one in cairn.nodes.search(llm_model="large", node_id="plan")} == {2, 3}
    assert [one.revision for one in cairn.nodes.search(not_llm_model="large", node_id="plan")] == [1]
    cairn.nodes.set_memory(version_id, "plan", {"a": 1, "b": 2})
    read = cairn.nodes.memory(version_id, "plan")
    assert dict(read) == {"a": 1, "b": 2}
    merged = cairn.using(if_match=read.etag).nodes.merge_memory(version_id, "plan", {"a": None, "c": 3})
    assert dict(merged) == {"b": 2, "c": 3}
    with pytest.raises(PreconditionFailedError):
        cairn.using(if_match=read.etag).nodes.set_memory(version_id, "plan", {})


async def test_what_ran_reads_back_as_a_trace(served: Served, cairn: Cairn) -> None:
    invocation_id = cairn.invocations.create(id="inv/1", version_id=version(cairn), input=HOSTILE).id
    nodes, messages = cairn.node_invocations, cairn.messages
    with pytest.raises(NodeVersionMissingError):
        nodes.start(invocation_id, node_id="stranger")
    nodes.start(invocation_id, id="n/1", node_id="plan", model="small")
    assert nodes.record_action(invocation_id, "n/1", id="a0", tool="ls", duration_ms=Decimal("1.5")).duration_ms == 1.5
    calls: list[ActionFields] = [{"id": "a1", "tool": "bash", "input": HOSTILE}, {"id": "a2", "tool": "cat"}]
    kept = nodes.record_actions(invocation_id, "n/1", calls, include=["input"])
    assert [(one.id, one.input) for one in kept] == [("a1", HOSTILE), ("a2", None)]
    assert [one.tool for one in nodes.actions(invocation_id, "n/1")] == ["ls", "bash", "cat"]
    cost = Decimal("0.000000000000000001")
    ended = nodes.end(
        invocation_id, "n/1", status="failed", output=HOSTILE, usd_cost=cost, error={"message": "no"}, summary="s",
        include=["output"],
    )  # fmt: skip
    assert (ended.output, ended.usd_cost, ended.status) == (HOSTILE, cost, "failed")
    assert nodes.get(invocation_id, "n/1", include=["output"]).output == HOSTILE
    assert [one.id for one in nodes.list(invocation_id)] == [one.id for one in nodes.search(status="failed")] == ["n/1"]
    assert [one.summary for one in nodes.summaries(invocation_id, node_id="plan")] == ["s"]
    messages.record(invocation_id, id="m0", seq=0, role="user", payload=HOSTILE, to_node_id="plan")
    async with AsyncCairn(served.url, key=served.key) as other:
        many: list[MessageFields] = [{"id": f"m{n}", "seq": n, "role": "data", "payload": n} for n in (1, 2)]
        assert [one.id for one in await other.messages.record_many(invocation_id, many)] == ["m1", "m2"]
        listed = other.messages.list(invocation_id, role=["data"], after_seq=1, include=["payload"])
        assert [one.payload async for one in listed] == [Json("2")]
    assert messages.patch(invocation_id, "m0", target_node_invocation_id="n/1").target_node_invocation_id == "n/1"
    assert messages.get(invocation_id, "m0", include=["payload"]).payload == HOSTILE
    trace = cairn.invocations.trace(invocation_id)
    assert (trace.invocation.input, trace.version.dsl) == (HOSTILE, HOSTILE)
    assert [(one.id, one.output, one.messages_in) for one in trace.nodes] == [("n/1", HOSTILE, ["m0"])]
    assert [one.input for one in trace.nodes[0].actions] == [None, HOSTILE, None]
    assert trace.nodes[0].node_version is not None
    assert trace.nodes[0].node_version.llm_model == "small"
    assert [one.payload for one in trace.messages] == [HOSTILE, Json("1"), Json("2")]
    rest = cairn.invocations.trace(invocation_id, limit=1).more
    assert rest is not None
    assert rest.messages is not None
    assert cairn.invocations.trace_metrics(invocation_id)["usd_cost"] == cost


async def test_events_tell_what_happened_in_order(served: Served, cairn: Cairn) -> None:
    invocation_id = cairn.invocations.create(version_id=version(cairn), input=HOSTILE).id
    cairn.invocations.end(invocation_id, status="completed")
    events: list[Event] = []
    for event in cairn.events.follow(quiet_max_seconds=30, include=["dsl", "input"]):
        events.append(event)
        if event.type == "invocation.ended":
            break
    assert [one.position for one in events] == list(range(1, len(events) + 1))
    told = {one.type: one for one in events}
    assert told["version.created"].data.raw("dsl") == told["invocation.started"].data.raw("input") == HOSTILE
    assert told["invocation.ended"].subject_id == told["invocation.ended"].data["id"] == invocation_id
    page = cairn.events.list(type=["invocation.ended"]).page()
    assert [one.id for one in page.items] == [events[-1].id]
    async with AsyncCairn(served.url, key=served.key) as other:
        await other.invocations.create(version_id=told["version.created"].subject_id)
        assert page.next_cursor is not None
        later = other.events.follow(quiet_max_seconds=30, after=page.next_cursor)
        assert (await anext(later)).type == "invocation.started"


def test_deleting_all_of_a_workflow_is_a_job(cairn: Cairn) -> None:
    version_id = version(cairn)
    with pytest.raises(ConflictError):
        cairn.workflows.delete("wf_1")
    job = cairn.workflows.delete("wf_1", cascade=True)
    assert job is not None
    assert job.kind == "workflow.delete"
    for event in cairn.events.follow(quiet_max_seconds=30):
        if event.type == "workflow.deleted":
            break
    assert not cairn.versions.exists(version_id)
    assert [one.id for one in cairn.jobs.list(kind="workflow.delete", state="completed")] == [job.id]
    with pytest.raises(ConflictError):
        cairn.jobs.cancel(job.id)


def test_the_service_tells_of_itself(cairn: Cairn) -> None:
    assert cairn.service.capabilities()["api"] == "v1"
    schema = cairn.service.schema()
    assert schema["current"] == schema["expected"]
    assert all("id" in decision for decision in cairn.service.schema_decisions())


async def test_a_batch_is_all_or_nothing(served: Served, cairn: Cairn) -> None:
    batch = cairn.batch()
    batch.versions.create("wf_1", id="v1", dsl=HOSTILE, workflow={})
    made = batch.invocations.create(id="inv_1", version_id="v1", input=HOSTILE)
    read = batch.invocations.get("inv_1", include=["input"])
    listed = batch.invocations.list(include=["input"])
    batch.send()
    assert made.result().status == "running"
    assert made.result().etag is not None
    assert read.result().input == listed.result().items[0].input == HOSTILE
    async with AsyncCairn(served.url, key=served.key) as other:
        refused = other.batch()
        refused.invocations.create(id="inv_2", version_id="v1")
        refused.invocations.create(id="inv_3", version_id="none")
        with pytest.raises(VersionNotFoundError) as caught:
            await refused.send()
        assert caught.value.facts["index"] == 1
        assert [one.id async for one in other.invocations.list()] == ["inv_1"]


def test_one_key_is_one_effect(cairn: Cairn) -> None:
    first = cairn.using(idempotency_key="k1").workflows.create(name="One")
    again = cairn.using(idempotency_key="k1").workflows.create(name="One")
    assert again.json_bytes == first.json_bytes
    assert again.reply is not None
    assert again.reply.replayed
    with pytest.raises(InvalidInputError, match="idempotency_key_reused"):
        cairn.using(idempotency_key="k1").workflows.create(name="Two")
    assert [workflow.id for workflow in cairn.workflows.list()] == [first.id]


def test_a_refusal_names_the_fields(cairn: Cairn) -> None:
    with pytest.raises(InvalidInputError) as caught:
        cairn.workflows.create("wf_1", nome="x")  # type: ignore[call-arg]
    assert [error["pointer"] for error in caught.value.errors] == ["/nome"]
    assert caught.value.request_id is not None


def test_nobody_listening_is_unreachable() -> None:
    with Cairn("http://127.0.0.1:9", retry=Retry(attempt_max=1)) as cairn, pytest.raises(UnreachableError):
        cairn.workflows.get("wf_1")


def test_datasets_records_and_evaluators(cairn: Cairn) -> None:
    dataset = cairn.datasets.create(id="ds", name="Questions", owner_id="ann")
    assert cairn.using(if_match=dataset.etag).datasets.patch("ds", status="ready").status == "ready"
    cairn.datasets.create_version("ds", id="v1", version_label="1.0")
    assert cairn.datasets.get_version("ds", "v1").version_label == "1.0"
    assert [one.id for one in cairn.datasets.versions("ds")] == ["v1"]
    cairn.dataset_records.record("ds", id="r1", workflow_input=HOSTILE, dataset_version_id="v1")
    many = cairn.dataset_records.record_many("ds", [{"id": "r2", "ground_truth": HOSTILE}], include=["ground_truth"])
    assert many[0].ground_truth == HOSTILE
    assert [one.id for one in cairn.dataset_records.list("ds")] == ["r1", "r2"]
    assert cairn.dataset_records.get("r1").workflow_input == HOSTILE
    found = cairn.dataset_records.lookup(["r2", "r1", "r2"])
    assert [(one.id, one.workflow_input) for one in found] == [("r2", None), ("r1", HOSTILE), ("r2", None)]
    with pytest.raises(DatasetRecordNotFoundError) as caught:
        cairn.dataset_records.lookup(["x", "r1", "y"])
    assert caught.value.missing_ids == ["x", "y"]
    assert len(cairn.dataset_records.lookup(["x", "r1"], allow_missing=True)) == 1
    judge = cairn.evaluators.create(name="Judge", config={"model": "m"})
    assert cairn.evaluators.patch(judge.id, rubric=[1]).rubric == [1]
    assert [one.id for one in cairn.evaluators.list(q="jud")] == [judge.id]
    assert cairn.evaluators.get(judge.id).name == "Judge"
    cairn.evaluators.delete(judge.id)
    cairn.dataset_records.delete("r2")
    assert [one.id for one in cairn.datasets.list(owner_id="ann")] == [cairn.datasets.get("ds").id]
    cairn.datasets.delete("ds")


async def test_relatives_failures_evaluations_and_costs_in_both_modes(served: Served, cairn: Cairn) -> None:
    of = version(cairn)
    cairn.invocations.create(id="up", version_id=of, usd_cost=Decimal("0.000000000000000001"))
    cairn.invocations.create(id="down", version_id=of, parent_invocation_id="up", usd_cost=Decimal("12345678901234567"))
    cairn.node_invocations.start(
        "down", id="n1", node_id="plan", status="failed", error={"message": "no"}, input_tokens=7
    )
    cairn.messages.record("down", id="m1", role="error", payload=HOSTILE)
    assert [(one.id, one.depth) for one in cairn.invocations.lineage("down", limit=1)] == [("up", -1), ("down", 0)]
    assert [one.id for one in cairn.invocations.lineage("up", max_depth=0)] == ["up"]
    node, message = list(cairn.invocations.failures("down", include=["payload"]))
    assert (node.kind, node.error, message.payload) == ("node", {"message": "no"}, HOSTILE)
    async with AsyncCairn(served.url, key=served.key) as other:
        said = await other.invocations.evaluate("down", id="e1", score=0.5, rubric=["clear"], feedback="fine")
        assert (said.score, said.rubric) == (0.5, ["clear"])
        assert [one.id async for one in other.invocations.evaluations("down")] == ["e1"]
        assert [one.key async for one in other.costs.list("model", version_id=of)] == [None]
    totals = cairn.costs.totals(version_id=of)
    total = Decimal("12345678901234567.000000000000000001")
    assert (totals.usd_cost, totals.count, totals.input_tokens) == (total, 2, 7)
    groups = cairn.costs.list("workflow", version_id=of, sort="usd_cost")
    assert [(group.key, group.usd_cost) for group in groups] == [("wf_1", total)]


def test_sessions_checkpoints_and_resuming(cairn: Cairn) -> None:
    expires_at = datetime(2999, 1, 1, tzinfo=UTC)
    session = cairn.sessions.create("ses/1", owner_id="ann", expires_at=expires_at)
    assert (session.status, session.expires_at) == ("active", expires_at)
    assert cairn.using(if_match=session.etag).sessions.patch("ses/1", metadata={"a": 1}).metadata == {"a": 1}
    assert [one.id for one in cairn.sessions.list(status=["active"], expires_after=expires_at)] == ["ses/1"]
    made = cairn.invocations.create(version_id=version(cairn), session_id="ses/1")
    cairn.node_invocations.start(made.id, id="n1", node_id="plan")
    assert cairn.checkpoints.record(made.id, state=HOSTILE, node_id="plan", include=["state"]).state == HOSTILE
    assert cairn.checkpoints.record(made.id, state=2).number == 2
    assert [one.number for one in cairn.checkpoints.list(made.id, node_id="plan")] == [1]
    assert cairn.checkpoints.get(made.id, 1).state == HOSTILE
    assert cairn.checkpoints.latest(made.id, node_id="plan").number == 1
    found = cairn.checkpoints.resume(made.id, include=["state"])
    assert found.checkpoint is not None
    assert (found.invocation.status, found.checkpoint.state) == ("running", Json("2"))
    assert ([one.id for one in found.running_nodes], found.node_counts["running"]) == (["n1"], 1)
    assert cairn.sessions.get("ses/1").owner_id == "ann"
    cairn.sessions.delete("ses/1")
