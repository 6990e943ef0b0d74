"""An answered request, refused or not, leaves nothing behind: its body is freed with it, not by a later collection."""

from __future__ import annotations

import gc

import httpx
import pytest

from app.http.call import Call
from tests.conftest import Make

ANSWERED = {
    "accepted": ("POST", "/v1/workflows", b'{"name":"x"}', 201),
    "not JSON": ("POST", "/v1/workflows", b'{"name":', 400),
    "nests too deep": ("POST", "/v1/workflows", b"[" * 1000, 400),
    "not acceptable": ("POST", "/v1/workflows", b'{"names":1}', 422),
    "not there": ("POST", "/v1/workflows/none/versions", b'{"dsl":1,"operation":"init"}', 404),
    "taken": ("POST", "/v1/workflows", b'{"id":"taken","name":"other"}', 409),
    "not storable": ("PUT", "/v1/workflows/w?x=1", b"{}", 422),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), ANSWERED.values(), ids=ANSWERED)
@pytest.mark.parametrize("key", [None, "once"])
async def test_nothing_holds_a_request_once_it_is_answered(
    client: httpx.AsyncClient, make: Make, key: str | None, method: str, path: str, body: bytes, status: int
) -> None:
    await make.workflow(id="taken", name="one")
    headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
    gc.collect()
    gc.disable()
    try:
        answer = await client.request(method, path, content=body, headers=headers)
        held = sum(isinstance(thing, Call) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert answer.status_code == status, answer.text
    assert held == 0
