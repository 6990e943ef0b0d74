"""An imported dump, and one request for each question: the rows of the file say what the answer must be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx

from tests.lucky.generator import Dump

Row = dict[str, Any]


class Record:
    """The rows that were imported, and the tenant that holds them now."""

    def __init__(self, dump: Dump, client: httpx.AsyncClient) -> None:
        self.dump, self.client = dump, client
        self.run, self.generation = dump.row("EvolutionRun"), dump.row("Generation")
        self.version, self.invocation = dump.row("WorkflowVersion"), dump.row("WorkflowInvocation")

    def rows(self, table: str, **where: Any) -> list[Row]:
        """The rows of a table with these values."""
        return [row for row in self.dump.rows[table] if all(row[name] == value for name, value in where.items())]

    def invocations_of_run(self, run: Row) -> list[Row]:
        """The invocations that a run reaches by any link."""
        generations = {row["generation_id"] for row in self.rows("Generation", run_id=run["run_id"])}
        versions = {r["wf_version_id"] for r in self.dump.rows["WorkflowVersion"] if r["generation_id"] in generations}
        return [row for row in self.dump.rows["WorkflowInvocation"] if row["wf_version_id"] in versions]

    async def get(self, path: str, **params: Any) -> Any:
        """What one request answers."""
        answer = await self.client.get(f"/v1{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def batch(self, *paths: str) -> list[Any]:
        """What one request answers that reads several things on one snapshot."""
        operations = [{"method": "GET", "path": f"/v1{path}"} for path in paths]
        answer = await self.client.post("/v1/batch", json={"operations": operations})
        assert answer.status_code == 200, answer.text
        return [result["body"] for result in answer.json()["results"]]


def score(row: Row) -> float:
    """The score within whichever shape the fitness has."""
    found: float = row["fitness"].get("data", row["fitness"])["score"]
    return found


def accuracy(row: Row) -> float:
    """The accuracy within whichever shape the fitness has."""
    inner = row["fitness"].get("data", row["fitness"])
    found: float = inner.get("accuracy", inner.get("dataAccuracy"))
    return found


def cost(rows: list[Row]) -> Decimal:
    """What rows cost, exactly."""
    return sum((Decimal(repr(row["usd_cost"])) for row in rows), Decimal(0))


def ids(items: list[Row], name: str = "id") -> list[str]:
    """The ids of items."""
    return [item[name] for item in items]
