"""What no call takes is refused before it is built: memory and time stay those of the text, whatever its shape."""

from __future__ import annotations

import json
import resource

import httpx
import pytest

from app.errors import InvalidInput
from app.http.batch import Batch
from app.http.cutting import PLAIN_BYTES_MAX, read_body
from app.invocations.schemas import NewInvocation
from app.workflows.schemas import NewWorkflow

MIB = 1024 * 1024
SIZE = 16 * MIB
KIB_MAX = 200 * 1024
SHAPES = {
    "an escaped name": (NewWorkflow, b'{"' + b"\\\\" * (SIZE // 2) + b'":1}', ""),
    "a plain name": (NewWorkflow, b'{"' + b"a" * SIZE + b'":1}', ""),
    "many members": (NewWorkflow, b"{" + b",".join(b'"k%d":1' % number for number in range(300_000)) + b"}", ""),
    "many operations": (Batch, b'{"operations":[' + b"{}," * (SIZE // 3) + b"{}]}", "/operations"),
    "many items that are no objects": (Batch, b'{"operations":[' + b"1," * (SIZE // 2) + b"1]}", "/operations"),
}


@pytest.mark.parametrize(("model", "body", "pointer"), SHAPES.values(), ids=SHAPES)
def test_a_shape_that_no_call_takes_is_refused_at_the_cost_of_its_text(
    model: type[NewWorkflow], body: bytes, pointer: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput) as refused:
        read_body(body, model)
    assert [error["pointer"] for error in refused.value.facts["errors"]] == [pointer]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KIB_MAX


def test_a_large_value_that_is_no_payload_is_refused_before_it_is_built() -> None:
    body = b'{"version_id":"v","more":[' + b"[]," * (SIZE // 3) + b"[]]}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput) as refused:
        read_body(body, NewInvocation)
    assert refused.value.facts == {"limit_bytes": PLAIN_BYTES_MAX}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KIB_MAX


def test_as_much_as_a_call_may_take_is_still_read() -> None:
    tools = [f"{number:0300}" for number in range(9000)]
    body = json.dumps({"more": tools, "input": "x" * PLAIN_BYTES_MAX}).encode()
    assert read_body(body, NewInvocation)["more"] == tools


async def test_a_refusal_does_not_repeat_a_long_name(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/workflows", json={"a/" + "b" * 900: 1})
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"].startswith("/a~1bbb")
    assert len(answer.content) < 1000
