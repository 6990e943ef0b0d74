"""A write that found nothing to write to, and then, looking for the reason, what somebody has just made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from app.db.database import Answer, Once
from app.db.fences import NO_FENCES
from app.db.sql import Statement
from app.evolution import store as runs
from app.http.service import Service
from app.versions import node_store
from tests.conftest import Make


class Overtaken(Once):
    """A writer whose first write finds nothing, and is followed by what others make."""

    def __init__(self, service: Service, tenant_id: str, making: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(service.ground.database, tenant_id, None, NO_FENCES)
        self.making: Callable[[], Awaitable[Any]] | None = making

    async def answer(self, statement: Statement, if_new: Statement | None = None, /, **arguments: Any) -> Answer | None:
        """What the statement gives."""
        found = await super().answer(statement, if_new, **arguments)
        if self.making is not None:
            assert found is None
            making, self.making = self.making, None
            await making()
        return found


async def test_a_checkpoint_of_a_run(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    tenant = client.headers["x-test-tenant"]
    writer = Overtaken(service, tenant, lambda: make.created("/v1/evolution-runs", id="run"))
    answer = await runs.put_checkpoint(writer, tenant, "run", b"1", None, may_create=True)
    assert answer.status == 201


async def test_the_memory_of_a_node(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    tenant = client.headers["x-test-tenant"]
    writer = Overtaken(service, tenant, lambda: make.version(id="v"))
    answer = await node_store.write_memory(writer, tenant, "v", "n", b'{"a":1}', None, merge=False)
    assert answer.body == b'{"a": 1}'
