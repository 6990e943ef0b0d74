"""The client's calls against the running service: what one sends, the other understands."""

from __future__ import annotations

import pytest

from app.client import (
    AsyncCairn,
    Cairn,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    PreconditionFailedError,
    UnauthenticatedError,
    UnreachableError,
    WorkflowNotFoundError,
)
from tests.conftest import ADMIN_KEY
from tests.e2e.conftest import Served


def test_tenants_and_keys(served: Served, cairn: Cairn) -> None:
    with Cairn(served.url, key=ADMIN_KEY) as operator:
        assert operator.tenants.ensure("beta", name="Beta").id == "beta"
        assert operator.tenants.patch("beta", metadata={"plan": "free"}).name == "Beta"
        assert {tenant.id for tenant in operator.tenants.list()} == {"acme", "beta"}
        operator.tenants.set_limits("beta", {})
        assert dict(operator.tenants.limits("beta")) == {}
        with pytest.raises(InvalidInputError, match="tenant_required"):
            operator.workflows.get("wf_1")
        assert list(operator.using(tenant="beta").workflows.list()) == []
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
    from app.client import Retry

    with Cairn("http://127.0.0.1:9", retry=Retry(attempt_max=1)) as cairn, pytest.raises(UnreachableError):
        cairn.workflows.get("wf_1")
