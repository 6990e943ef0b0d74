"""The client's calls about contexts against the running service."""

from __future__ import annotations

import hashlib
import io
from datetime import UTC, datetime

import pytest

from app.client import (
    AsyncCairn,
    Cairn,
    ConflictError,
    NotFoundError,
    PreconditionFailedError,
)
from tests.e2e.conftest import Served

HARD = "plans/ü ?#[/../1"
BYTES = bytes(range(256)) * 5000
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def invocation(cairn: Cairn) -> str:
    """An invocation to keep contexts of."""
    version = cairn.versions.create("contexts", dsl={}, workflow={"name": "Contexts"})
    return cairn.invocations.create(version_id=version.id).id


def test_a_context_is_put_and_got_with_what_is_kept_beside_it(cairn: Cairn, invocation: str) -> None:
    made = cairn.contexts.put(
        invocation, "workflow", HARD, b"{}", content_type="application/json", node_id="n", summary="ü",
        metadata={"tags": ["a"]}, expires_at=LATER,
    )  # fmt: skip
    assert (made.key, made.node_id, made.summary, made.metadata, made.expires_at) == (
        HARD, "n", "ü", {"tags": ["a"]}, LATER,
    )  # fmt: skip
    stored = cairn.contexts.get(invocation, "workflow", HARD, node_id="n")
    assert stored.content == b"{}"
    assert stored.known == cairn.contexts.head(invocation, "workflow", HARD, node_id="n")
    assert (stored.known.summary, stored.known.metadata, stored.known.expires_at) == ("ü", {"tags": ["a"]}, LATER)
    assert (stored.known.digest, stored.known.size_bytes) == (hashlib.sha256(b"{}").hexdigest(), 2)
    assert (stored.known.content_type, stored.known.etag) == ("application/json", made.etag)
    with pytest.raises(PreconditionFailedError):
        cairn.contexts.put(invocation, "workflow", HARD, b"other", node_id="n", only_new=True)
    cairn.using(if_match=stored.known.etag).contexts.put(invocation, "workflow", HARD, b"other", node_id="n")
    with pytest.raises(PreconditionFailedError):
        cairn.using(if_match=stored.known.etag).contexts.delete(invocation, "workflow", HARD, node_id="n")
    cairn.contexts.delete(invocation, "workflow", HARD, node_id="n")
    with pytest.raises(NotFoundError):
        cairn.contexts.head(invocation, "workflow", HARD, node_id="n")


async def test_large_ones_go_in_and_out_in_pieces(served: Served, cairn: Cairn, invocation: str) -> None:
    file = io.BytesIO(b"skipped" + BYTES)
    file.seek(7)
    made = cairn.contexts.upload(invocation, "node", "a", file, content_type="x/y", summary="s", only_new=True)
    assert (made.size_bytes, made.content_type, made.summary) == (len(BYTES), "x/y", "s")
    pieces = cairn.contexts.download(invocation, "node", "a", start=5, end=1_000_001)
    assert b"".join(pieces) == BYTES[5:1_000_001]
    async with AsyncCairn(served.url, key=served.key) as other:
        file.seek(8)
        tail = await other.contexts.upload(invocation, "node", "b", file, node_id="n")
        assert (tail.size_bytes, tail.node_id) == (len(BYTES) - 1, "n")
        got = [piece async for piece in other.contexts.download(invocation, "node", "b", node_id="n")]
        assert b"".join(got) == BYTES[1:]
        file.seek(7)
        with pytest.raises(PreconditionFailedError):
            await other.contexts.upload(invocation, "node", "a", file, only_new=True)
        with pytest.raises(NotFoundError):
            await anext(other.contexts.download(invocation, "node", "none"))
        assert [one.key async for one in other.contexts.list(invocation, limit=1)] == ["a", "b"]


def test_contexts_are_copied_moved_and_cleared(cairn: Cairn, invocation: str) -> None:
    for key in ("a/1", "a/2", "b"):
        cairn.contexts.put(invocation, "workflow", key, key.encode())
    copied = cairn.contexts.copy(invocation, {"scope": "workflow", "key": "b"}, {"key": "a/3", "node_id": "n"})
    assert (copied.key, copied.node_id, copied.summary) == ("a/3", "n", "b")
    with pytest.raises(ConflictError):
        cairn.contexts.move(invocation, {"scope": "workflow", "key": "b"}, {"key": "a/2"})
    cairn.contexts.move(invocation, {"scope": "workflow", "key": "b"}, {"key": "a/2"}, overwrite=True)
    assert [(one.key, one.summary) for one in cairn.contexts.list(invocation, pattern="a/*", node_id="")] == [
        ("a/1", "a/1"), ("a/2", "b"),
    ]  # fmt: skip
    batch = cairn.batch()
    page, cleared = batch.contexts.list(invocation), batch.contexts.clear(invocation, pattern="a/?", node_id=None)
    batch.send()
    assert ([one.key for one in page.result().items], cleared.result()) == (["a/1", "a/2", "a/3"], 2)
    assert cairn.contexts.clear(invocation) == 1
