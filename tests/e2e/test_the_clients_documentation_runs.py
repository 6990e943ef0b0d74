"""The examples of docs/client.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

from app.client import Cairn
from tests.e2e.conftest import Served

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "client.md"


def test_the_examples_run(served: Served, cairn: Cairn) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    story, _lists, batch, registry, cleanup, queue, memory, handed_on, documents, backups, retention = blocks
    assert 'Cairn("http://127.0.0.1:8000", key="cairn_…")' in story
    exec(story.replace("http://127.0.0.1:8000", served.url).replace("cairn_…", served.key), {})
    version = cairn.versions.latest("wf_triage", include=["dsl"])
    assert version.dsl is not None
    assert version.dsl.text == '{"nodes": ["plan", "search"], "temperature": 1.0}'
    cairn.invocations.create(id="inv_7", version_id=version.id)
    cairn.node_invocations.start("inv_7", id="n1", node_id="plan")
    exec(batch, {"cairn": cairn})
    assert {one.status for one in cairn.invocations.list()} == {"completed"}
    exec(registry, {"cairn": cairn})
    assert [one.status for one in cairn.mcp_versions.list("mcp_search")] == ["released"]
    assert [one.server_id for one in cairn.mcp_configs.of_user("user_42").configs] == ["mcp_search"]
    exec(cleanup, {"cairn": cairn})
    exec(queue, {"cairn": cairn})
    assert [one.session_key for one in cairn.submissions.list(view="runnable")] == ["user-42"]
    assert [one.path for one in cairn.conversations.list()] == ["agents/counter/1"]
    assert [one.filename for one in cairn.attachments.list()] == ["note.txt"]
    exec(memory, {"cairn": cairn})
    assert [one.id for one in cairn.memory_records.list()] == ["sky"]
    exec(handed_on, {"cairn": cairn})
    invocation = next(iter(cairn.invocations.list())).id
    assert cairn.contexts.get(invocation, "workflow", "plans/1").content == b"2. compare"
    assert [one.name for one in cairn.artifacts.references(invocation)] == ["report"]
    exec(documents, {"cairn": cairn})
    assert cairn.documents.get("Job", "j1").body.text == '{"status": "completed", "n": 1.0}'
    exec(backups, {"cairn": cairn})
    assert [one.label for one in cairn.backups.list()] == ["before the migration"]
    exec(retention, {"cairn": cairn})
    assert cairn.retention.get().kinds["invocations"].rule is None
