"""Makes a dump of Lucky's tables from their documented columns: seeded, with the oddities that real ones have."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from tests.lucky.catalogue import OLD_COLUMNS, TABLES

Columns = Literal["old", "new"]
Rows = dict[str, list[dict[str, Any]]]
EPOCH = datetime(2025, 8, 1, 12, tzinfo=UTC)
OWNED = ("Workflow", "EvolutionRun", "Generation")


class Dump:
    """Rows of every table, which may be changed before they are written."""

    def __init__(self, seed: int, columns: Columns = "new", *, runs: int = 2, generations: int = 3, size: int = 4):
        self.random, self.columns = random.Random(seed), columns
        self.rows: Rows = {name: [] for name in TABLES}
        self._clock = EPOCH
        self._make(runs, generations, size)

    def _at(self, seconds: float = 1) -> str:
        self._clock += timedelta(seconds=seconds, microseconds=self.random.randrange(1_000_000))
        return self._clock.isoformat()

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self.random.getrandbits(64):016x}"

    def _value(self, table: str, column: str, kind: str) -> Any:
        """Any value of the column's type; null now and then where that may be."""
        if kind.endswith("?") and self.random.random() < 0.2:
            return None
        makers: dict[str, Callable[[], Any]] = {
            "text": lambda: f"{column} {self.random.randrange(1000)} – ü",
            "timestamptz": self._at,
            "jsonb": lambda: {"b": [1.0, self.random.randrange(9)], "a": {"of": column}},
            "integer": lambda: self.random.randrange(100),
            "numeric": lambda: self.random.randrange(10**9) / 10**9,
            "boolean": lambda: self.random.random() < 0.5,
            "text[]": lambda: [f"{column}_{n}" for n in range(self.random.randrange(3))],
            "status": lambda: self.random.choice(["completed", "failed"]),
            "run_status": lambda: self.random.choice(["completed", "failed", "interrupted"]),
            "operation": lambda: "init",
            "role": lambda: self.random.choice(["delegation", "sequential", "result", "aggregated", "error"]),
        }
        return makers[kind.rstrip("?")]()

    def add(self, table: str, **given: Any) -> dict[str, Any]:
        """A row of a table: every documented column, these given."""
        kinds = dict(TABLES[table])
        if self.columns == "old":
            kinds |= OLD_COLUMNS.get(table, {})
        row = {column: self._value(table, column, kind) for column, kind in kinds.items()} | given
        self.rows[table].append(row)
        return row

    def _make(self, runs: int, generations: int, size: int) -> None:
        dataset = self.add("DataSet", dataset_id="ds_1", clerk_id="user_1")
        snapshot = self.add("DatasetVersion", dataset_version_id="dsv_1", dataset_id="ds_1")
        for number in range(3):
            self.add(
                "DatasetRecord",
                dataset_record_id=f"dr_{number}",
                dataset_id=dataset["dataset_id"],
                dataset_version_id=snapshot["dataset_version_id"] if number else None,
            )
        self.add("Evaluator", evaluator_id="ev_1", clerk_id="user_1")
        self._make_registry()
        for name in TABLES:
            if not self.rows[name] and (name.startswith(("app.", "iam.", "lockbox.", "mcp.")) or name == "feedback"):
                self.add(name)
        for _ in range(runs):
            self._run(generations, size)

    def _make_registry(self) -> None:
        self.add("mcp.servers", server_id="srv_1", slug="web-search", visibility="public")
        self.add("mcp.server_versions", sver_id="sver_1", server_id="srv_1", status="released", version="1.0.0")
        for name in ("search", "read"):
            self.add("mcp.tools", tool_id=f"tool_{name}", sver_id="sver_1", name=name)
        for name, server, config in (
            ("search", "srv_1", {"url": "https://search.example"}),
            ("own", None, {"command": "npx", "env": {"API_KEY": "${API_KEY}"}}),
        ):
            self.add(
                "mcp.user_server_configs", usco_id=f"usco_{name}", user_id="user_1", name=name, server_id=server,
                config_json=config, secrets_json={}, inst_id=None,
            )  # fmt: skip

    def _run(self, generations: int, size: int) -> None:
        workflow = self.add("Workflow", wf_id=self._id("wf"), clerk_id="user_1")
        run = self.add("EvolutionRun", run_id=self._id("evo"), clerk_id="user_1", status="completed")
        population: list[dict[str, Any]] = []
        for number in range(generations):
            generation = self.add(
                "Generation", generation_id=self._id("gen"), run_id=run["run_id"], number=number, clerk_id=None,
                best_workflow_version_id=None,
            )  # fmt: skip
            population = [self._version(workflow, generation, population) for _ in range(size)]
            best = self.random.choice(population)
            generation["best_workflow_version_id"] = best["wf_version_id"]
            for version in population:
                self._invocation(run, generation, version)

    def _version(
        self, workflow: dict[str, Any], generation: dict[str, Any], parents: list[dict[str, Any]]
    ) -> dict[str, Any]:
        operation = self.random.choice(["mutation", "crossover"]) if parents else "init"
        chosen = self.random.sample(parents, {"init": 0, "mutation": 1, "crossover": 2}[operation])
        ids = [parent["wf_version_id"] for parent in chosen] + [None, None]
        version = self.add(
            "WorkflowVersion",
            wf_version_id=self._id("wf_ver"),
            workflow_id=workflow["wf_id"],
            generation_id=generation["generation_id"],
            operation=operation,
            parent_id=None,
            parent1_id=ids[0],
            parent2_id=ids[1],
            dsl={"__schema_version": 1, "nodes": [{"nodeId": "plan", "temperature": self.random.random()}]},
        )
        for revision, node in enumerate(("plan", "search"), 1):
            self.add(
                "NodeVersion", node_version_id=self._id("nv"), wf_version_id=version["wf_version_id"], node_id=node,
                version=revision, memory={"learned": "to ask"},
            )  # fmt: skip
        return version

    def fitness(self, score: float, accuracy: float) -> dict[str, Any]:
        """One of the three shapes that the column has had."""
        return self.random.choice(
            [
                {"score": score, "feedback": "good", "totalCost": 0.01, "accuracy": accuracy},
                {"success": True, "data": {"score": score, "feedback": "good", "dataAccuracy": accuracy}},
                {"success": True, "data": {"score": score, "accuracy": accuracy, "feedback": "good"}, "usdCost": 0.01},
            ]
        )

    def _invocation(self, run: dict[str, Any], generation: dict[str, Any], version: dict[str, Any]) -> None:
        score, accuracy = self.random.random() * 100, self.random.random() * 100
        linked = self.random.random() < 0.7
        given: dict[str, Any] = {}
        if self.columns == "old":
            given = {"fitness_score": round(score), "accuracy": round(accuracy)}
        invocation = self.add(
            "WorkflowInvocation",
            wf_invocation_id=self._id("inv"),
            wf_version_id=version["wf_version_id"],
            run_id=run["run_id"] if linked else None,
            generation_id=generation["generation_id"] if linked else None,
            dataset_record_id="dr_1",
            evaluator_id="ev_1",
            fitness=self.fitness(score, accuracy),
            start_time=self._at(),
            end_time=self._at(5),
            usd_cost=self.random.randrange(10**12) / 10**14,
            **given,
        )
        previous = None
        for seq, node in enumerate(("plan", "search")):
            ran = self.add(
                "NodeInvocation", node_invocation_id=self._id("ni"), node_id=node, node_version_id=None,
                wf_invocation_id=invocation["wf_invocation_id"], wf_version_id=version["wf_version_id"],
                start_time=self._at(), end_time=self._at(), attempt_no=1,
            )  # fmt: skip
            self.add(
                "Message", msg_id=self._id("msg"), wf_invocation_id=invocation["wf_invocation_id"],
                origin_invocation_id=previous, target_invocation_id=ran["node_invocation_id"],
                from_node_id="start", to_node_id=node, seq=seq,
                payload={"kind": "delegation", "berichten": [{"type": "text", "text": "workDone fromNodeId"}]},
            )  # fmt: skip
            previous = ran["node_invocation_id"]
        self.add("WorkflowInvocationEval", wf_inv_eval_id=self._id("ie"), wf_inv_id=invocation["wf_invocation_id"])

    def row(self, table: str, number: int = 0) -> dict[str, Any]:
        """One row of a table."""
        return self.rows[table][number]

    def write(self, folder: Path) -> Path:
        """Write a file for each table that has rows, arrays and lines by turns."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, (table, rows) in enumerate(self.rows.items()):
            if not rows:
                continue
            lines = [json.dumps(row, ensure_ascii=bool(number % 3)) for row in rows]
            if number % 2:
                (folder / f"{table}.jsonl").write_text("".join(line + "\n" for line in lines))
            else:
                (folder / f"{table}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        return folder
