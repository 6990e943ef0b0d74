"""The client makes spaces, has one filled, and switches, over a real connection."""

from __future__ import annotations

import pytest

from app.client import Cairn, ConflictError
from app.client.operations import Job
from tests.waiting import until


def test_spaces_are_made_filled_and_switched(cairn: Cairn) -> None:
    old = cairn.memory_spaces.put("old", model="m", dimensions=2)
    new = cairn.memory_spaces.put("new", model="n", dimensions=3, metric="l2")
    assert (old.active, new.active, new.metric) == (True, False, "l2")
    cairn.memory_documents.create(id="d", content="The fox sleeps.", embedding=[1.0, 0.0])
    job = cairn.memory_spaces.reembed("new")
    assert (job.kind, job["arguments"]["space"]) == ("memory.reembed", "new")
    assert cairn.memory_spaces.get("new").filling

    def ended() -> Job | None:
        found = cairn.jobs.get(job.id)
        return found if found.ended_at is not None else None

    failed = until(ended, "the end of the job")
    assert (failed.state, failed.error["code"]) == ("failed", "embedder_missing")
    with pytest.raises(ConflictError) as refused:
        cairn.memory_spaces.activate("new")
    assert (refused.value.code, refused.value.facts["missing"]) == ("memory_space_incomplete", 1)
    # Who makes embeddings elsewhere fills the space.
    cairn.memory_documents.patch("d", embedding=[0.0, 1.0, 0.0], space="new")
    assert cairn.memory_spaces.activate("new").active
    cairn.memory_spaces.delete("old")
    assert [space.name for space in cairn.memory_spaces.list()] == ["new"]
