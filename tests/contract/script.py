"""One line for each route: a call that works for the tenant that owns its ids, and what another tenant then sees.

A new route needs its line here; the walk over the OpenAPI document fails without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import httpx

# In every text and payload of the owner: it must never be in an answer to anybody else.
SECRET = "9c41-owner-only"
COST = "0.7123456789"
# Of the bytes of that text, which are an artifact.
HASH = hashlib.sha256(SECRET.encode()).hexdigest()
CHECKPOINT = {"offset": "-1", "incarnation": "i", "format_version": 1}
# What the owner's producer stores next; its incarnation is known once the conversation is there.
APPEND = {
    "path": "conv",
    "producer_id": "p",
    "producer_epoch": 1,
    "incarnation": "{incarnation}",
    "producer_sequence": 2,
}
VERSION = {"dsl": {"of": SECRET}, "nodes": [{"node_id": "n", "system_prompt": SECRET}]}
SUBMISSION = {"session_key": "made", "kind": "direct", "agent": "made", "instance_id": "i", "input": SECRET}
RENEWAL = {"owner_id": "somebody", "lease_seconds": 30}
OWNED = {"attempt_id": "t"}
CLAIM = {**OWNED, "owner_id": "somebody", "lease_seconds": 3600}
RESERVATION = {**OWNED, "record_id": "r", "record": {"id": "r", "outcome": "completed", "of": SECRET}}
FINALIZATION = {**OWNED, "record_id": "r"}
HOLDING = {"holder": SECRET, "fencing_token": 1}
# An endpoint that nothing is sent to: the port answers nobody.
HOOK = "http://127.0.0.1:9/hook"
COPYING = {"source": {"scope": "workflow", "key": "key"}, "target": {"key": "copied"}, "overwrite": True}
MOVING = {**COPYING, "source": {"scope": "workflow", "key": "moving"}, "target": {"key": "moved"}}
MARKER = "?submission_id=m&attempt_id={}"

# gone: 404, as if it were not there. list: 200, and nothing of the owner in it. own: a row of the caller's own.
# bare: 409, since the caller has no space of its own. waits: 200, and nothing comes as long as the stream lasts.
# operator: 403 or 404 for every tenant's key. open: the same for everyone.
Sees = Literal["gone", "list", "waits", "own", "bare", "operator", "open"]


@dataclass(frozen=True)
class Line:
    """A route, the call of its owner, and what another tenant sees when it makes the same call."""

    route: str
    sees: Sees
    body: Any = None
    query: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None

    @property
    def method(self) -> str:
        """The method of the route."""
        return self.route.partition(" ")[0]

    def path(self, ids: dict[str, str]) -> str:
        """The path with the ids of the owner."""
        own = {name: value.format(**ids) for name, value in self.ids.items()}
        return self.route.partition(" ")[2].format(**{**ids, **own}) + self.query

    async def call(self, client: httpx.AsyncClient, ids: dict[str, str]) -> httpx.Response:
        """Make the call."""
        return await client.request(
            self.method, self.path(ids), json=self.filled(ids), content=self.content, headers=self.headers
        )

    def filled(self, ids: dict[str, str]) -> Any:
        """The body, with what only the owner's answers tell: a member `"{name}"` is that id."""
        if not isinstance(self.body, dict):
            return self.body
        named = {name: f"{{{name}}}" for name in ids}
        return {key: ids[key] if value == named.get(key) else value for key, value in self.body.items()}


def attached(path: str, name: str, content: bytes) -> str:
    """The query that puts an attachment; its name and its bytes are the owner's."""
    digest = hashlib.sha256(content).hexdigest()
    return (
        f"?path={path}&id={name}&conversation_id=c&mime_type=text/plain&filename={name}"
        f"&size={len(content)}&digest={digest}"
    )


SCRIPT = [
    Line("PUT /v1/tenants/{tenant_id}", "operator", {"name": SECRET}),
    Line("GET /v1/tenants/{tenant_id}", "gone"),
    Line("PATCH /v1/tenants/{tenant_id}", "operator", {"name": SECRET}),
    Line("DELETE /v1/tenants/{tenant_id}", "operator", ids={"tenant_id": "{leaving_id}"}),
    Line("GET /v1/offboardings", "operator"),
    Line("GET /v1/offboardings/{offboarding_id}", "operator"),
    Line("GET /v1/offboardings/{offboarding_id}/receipt", "operator"),
    Line("GET /v1/offboardings/{offboarding_id}/export", "operator", ids={"offboarding_id": "{exported_id}"}),
    Line("POST /v1/offboardings/{offboarding_id}/confirm", "operator", ids={"offboarding_id": "{exported_id}"}),
    Line("POST /v1/offboardings/{offboarding_id}/cancel", "operator", ids={"offboarding_id": "{cancelled_id}"}),
    Line("GET /v1/tenants", "list"),
    Line("GET /v1/tenants/{tenant_id}/limits", "gone"),
    Line("PUT /v1/tenants/{tenant_id}/limits", "operator", {"burst": 1000, "requests_per_second": 1000}),
    Line("POST /v1/api-keys", "own", {"id": "made", "name": SECRET, "scopes": ["workflows:read"]}),
    Line("GET /v1/api-keys", "list"),
    Line("POST /v1/api-keys/{key_id}/rotate", "gone"),
    Line("DELETE /v1/api-keys/{key_id}", "gone"),
    Line("POST /v1/workflows", "own", {"id": "made", "name": SECRET}),
    Line("PUT /v1/workflows/{workflow_id}", "own", {"name": SECRET}),
    Line("GET /v1/workflows/{workflow_id}", "gone"),
    Line("GET /v1/workflows", "list"),
    Line("PATCH /v1/workflows/{workflow_id}", "gone", {"description": SECRET}),
    Line("DELETE /v1/workflows/{workflow_id}", "gone", ids={"workflow_id": "empty"}),
    Line("POST /v1/workflows/{workflow_id}/versions", "gone", {**VERSION, "id": "made"}),
    Line("GET /v1/versions/latest", "gone"),
    Line("GET /v1/versions/{version_id}", "gone", query="?include=dsl"),
    Line("GET /v1/versions/{version_id}/dsl", "gone"),
    Line("GET /v1/versions", "list", query="?workflow_id=w&include=dsl"),
    Line("GET /v1/workflows/{workflow_id}/versions", "gone"),
    Line("GET /v1/workflows/{workflow_id}/versions/latest", "gone"),
    Line("PUT /v1/versions/{version_id}/io", "gone", {"of": SECRET}),
    Line("GET /v1/versions/{version_id}/io", "gone"),
    Line("GET /v1/versions/{version_id}/ancestors", "gone", query="?include=dsl"),
    Line("GET /v1/versions/{version_id}/descendants", "gone", query="?include=dsl"),
    Line("GET /v1/versions/{version_id}/common-ancestors/{other_id}", "gone", query="?include=dsl"),
    Line("GET /v1/versions/{version_id}/diff/{other_id}", "gone"),
    Line("GET /v1/workflows/{workflow_id}/genealogy", "gone"),
    Line("POST /v1/versions/{version_id}/nodes", "gone", {"node_id": "m", "system_prompt": SECRET}),
    Line("GET /v1/versions/{version_id}/nodes", "gone"),
    Line("GET /v1/node-versions", "list", query="?node_id=n"),
    Line("PUT /v1/versions/{version_id}/nodes/{node_id}/memory", "gone", {"of": SECRET}),
    Line("PATCH /v1/versions/{version_id}/nodes/{node_id}/memory", "gone", {"more": SECRET}),
    Line("GET /v1/versions/{version_id}/nodes/{node_id}/memory", "gone"),
    Line("POST /v1/invocations", "gone", {"id": "made", "version_id": "v", "input": SECRET}),
    Line("GET /v1/invocations", "list", query="?version_id=v&include=input,output&count=exact"),
    Line("GET /v1/invocations/summary", "list", query="?version_id=v"),
    Line("GET /v1/invocations/{invocation_id}", "gone", query="?include=input"),
    Line("PATCH /v1/invocations/{invocation_id}", "gone", {"feedback": SECRET}),
    Line("POST /v1/invocations/{invocation_id}/start", "gone", {}, ids={"invocation_id": "queued"}),
    Line("POST /v1/invocations/{invocation_id}/heartbeat", "gone"),
    Line("POST /v1/invocations/{invocation_id}/cancel", "gone", {}),
    Line("POST /v1/invocations/{invocation_id}/end", "gone", {"status": "failed"}, ids={"invocation_id": "ending"}),
    Line("DELETE /v1/invocations/{invocation_id}", "gone", ids={"invocation_id": "ended"}),
    Line("POST /v1/invocations/{invocation_id}/nodes", "gone", {"id": "made", "node_id": "n", "summary": SECRET}),
    Line("GET /v1/invocations/{invocation_id}/nodes/{node_invocation_id}", "gone"),
    Line("GET /v1/invocations/{invocation_id}/nodes", "gone"),
    Line("GET /v1/invocations/{invocation_id}/summaries", "gone"),
    Line("GET /v1/node-invocations", "list", query="?version_id=v&include=output"),
    Line("POST /v1/invocations/{invocation_id}/nodes/{node_invocation_id}/actions", "gone", {"tool": SECRET}),
    Line("GET /v1/invocations/{invocation_id}/nodes/{node_invocation_id}/actions", "gone"),
    Line("POST /v1/invocations/{invocation_id}/nodes/{node_invocation_id}/end", "gone", {"status": "completed"}),
    Line("POST /v1/invocations/{invocation_id}/messages", "gone", {"items": [{"role": "r", "payload": SECRET}]}),
    Line("GET /v1/invocations/{invocation_id}/messages", "gone", query="?include=payload"),
    Line("GET /v1/invocations/{invocation_id}/messages/{message_id}", "gone"),
    Line("PATCH /v1/invocations/{invocation_id}/messages/{message_id}", "gone", {"target_node_invocation_id": "ni"}),
    Line("GET /v1/invocations/{invocation_id}/lineage", "gone", query="?include=input"),
    Line("POST /v1/invocations/{invocation_id}/evaluations", "gone", {"id": "made", "feedback": SECRET}),
    Line("GET /v1/invocations/{invocation_id}/evaluations", "gone"),
    Line("GET /v1/invocations/{invocation_id}/trace", "gone"),
    Line("GET /v1/invocations/{invocation_id}/trace/metrics", "gone"),
    Line("POST /v1/maintenance/cleanup", "list", {}),
    Line("PUT /v1/maintenance/schedule", "own", {"every_seconds": 60}),
    Line("GET /v1/maintenance/schedule", "gone"),
    Line("DELETE /v1/maintenance/schedule", "gone"),
    Line("PUT /v1/retention", "own", {"kinds": {"jobs": {"max_age_days": 90}}}),
    Line("GET /v1/retention", "list"),
    Line("POST /v1/retention/runs", "own", {"dry_run": True}),
    Line("GET /v1/pins", "list"),
    Line("PUT /v1/pins/{kind}/{pinned}", "gone", ids={"kind": "invocation", "pinned": "i"}),
    Line("GET /v1/pins/{kind}/{pinned}", "gone", ids={"kind": "invocation", "pinned": "i"}),
    Line("DELETE /v1/pins/{kind}/{pinned}", "gone", ids={"kind": "invocation", "pinned": "i"}),
    Line("POST /v1/sessions", "own", {"id": "made", "owner_id": "somebody"}),
    Line("GET /v1/sessions", "list", query="?count=exact"),
    Line("GET /v1/sessions/{session_id}", "gone"),
    Line("PATCH /v1/sessions/{session_id}", "gone", {"metadata": {"of": SECRET}}),
    Line("DELETE /v1/sessions/{session_id}", "gone", ids={"session_id": "unused"}),
    Line("POST /v1/invocations/{invocation_id}/checkpoints", "gone", {"state": SECRET}),
    Line("GET /v1/invocations/{invocation_id}/checkpoints", "gone", query="?include=state"),
    Line("GET /v1/invocations/{invocation_id}/checkpoints/latest", "gone"),
    Line("GET /v1/invocations/{invocation_id}/checkpoints/{number}", "gone"),
    Line(
        "PUT /v1/invocations/{invocation_id}/contexts/{scope}/{key}",
        "gone",
        query=f"?summary={SECRET}",
        content=SECRET.encode(),
        ids={"key": "made"},
    ),
    Line("GET /v1/invocations/{invocation_id}/contexts/{scope}/{key}", "gone"),
    Line("DELETE /v1/invocations/{invocation_id}/contexts/{scope}/{key}", "gone", ids={"key": "unused"}),
    Line("GET /v1/invocations/{invocation_id}/contexts", "gone"),
    Line("POST /v1/invocations/{invocation_id}/contexts/copy", "gone", COPYING),
    Line("POST /v1/invocations/{invocation_id}/contexts/move", "gone", MOVING),
    Line("POST /v1/invocations/{invocation_id}/contexts/clear", "gone", {"pattern": "cleared"}),
    Line("POST /v1/invocations/{invocation_id}/resume", "gone", query="?include=state"),
    Line("POST /v1/invocations/{invocation_id}/checkpoints/resume", "gone"),
    Line("POST /v1/mcp/servers", "own", {"id": "made", "publisher_id": "p", "slug": "made", "display_name": "n"}),
    Line("GET /v1/mcp/servers", "list", query="?count=exact"),
    Line("GET /v1/mcp/servers/{server_id}", "gone"),
    Line("PATCH /v1/mcp/servers/{server_id}", "gone", {"short_description": SECRET}),
    Line("DELETE /v1/mcp/servers/{server_id}", "gone", ids={"server_id": "unused"}),
    Line("POST /v1/mcp/servers/{server_id}/versions", "gone", {"id": "made", "version": "9"}),
    Line("GET /v1/mcp/servers/{server_id}/versions", "gone"),
    Line("GET /v1/mcp/servers/{server_id}/versions/{version_id}", "gone"),
    Line("PATCH /v1/mcp/servers/{server_id}/versions/{version_id}", "gone", {"release_notes": SECRET}),
    Line("DELETE /v1/mcp/servers/{server_id}/versions/{version_id}", "gone", ids={"version_id": "unused"}),
    Line("POST /v1/mcp/servers/{server_id}/versions/{version_id}/tools", "gone", {"name": "made", "input_schema": {}}),
    Line("GET /v1/mcp/servers/{server_id}/versions/{version_id}/tools", "gone"),
    Line("GET /v1/mcp/servers/{server_id}/versions/{version_id}/tools/{tool_name}", "gone"),
    Line(
        "DELETE /v1/mcp/servers/{server_id}/versions/{version_id}/tools/{tool_name}",
        "gone",
        ids={"tool_name": "unused"},
    ),
    Line("POST /v1/mcp/configs", "own", {"id": "made", "user_id": "u", "name": "made", "config": {"command": "c"}}),
    Line("GET /v1/mcp/configs", "list", query="?user_id=u&count=exact"),
    Line("GET /v1/mcp/configs/{config_id}", "gone"),
    Line("PUT /v1/mcp/configs/{config_id}", "own", {"user_id": "u", "name": SECRET, "config": {"command": "c"}}),
    Line("PATCH /v1/mcp/configs/{config_id}", "gone", {"enabled": False}),
    Line("DELETE /v1/mcp/configs/{config_id}", "gone", ids={"config_id": "unused"}),
    Line("GET /v1/mcp/users/{user_id}/configs", "list"),
    Line(
        "PUT /v1/mcp/users/{user_id}/configs",
        "own",
        {"items": [{"name": "put", "config": {"command": "c"}}]},
        ids={"user_id": "another"},
    ),
    Line("POST /v1/datasets", "own", {"id": "made", "name": SECRET}),
    Line("GET /v1/datasets", "list", query="?count=exact"),
    Line("GET /v1/datasets/{dataset_id}", "gone"),
    Line("PATCH /v1/datasets/{dataset_id}", "gone", {"description": SECRET}),
    Line("DELETE /v1/datasets/{dataset_id}", "gone", ids={"dataset_id": "unused"}),
    Line("POST /v1/datasets/{dataset_id}/versions", "gone", {"id": "made", "name": SECRET}),
    Line("GET /v1/datasets/{dataset_id}/versions", "gone"),
    Line("GET /v1/datasets/{dataset_id}/versions/{version_id}", "gone", ids={"version_id": "dv"}),
    Line("POST /v1/datasets/{dataset_id}/records", "gone", {"id": "made", "workflow_input": SECRET}),
    Line("GET /v1/datasets/{dataset_id}/records", "gone", query="?include=workflow_input,ground_truth"),
    Line("GET /v1/dataset-records/{record_id}", "gone"),
    Line("DELETE /v1/dataset-records/{record_id}", "gone", ids={"record_id": "unused"}),
    Line("POST /v1/dataset-records/lookup", "gone", {"ids": ["r"]}),
    Line("POST /v1/evaluators", "own", {"id": "made", "name": SECRET}),
    Line("GET /v1/evaluators", "list", query="?count=exact"),
    Line("GET /v1/evaluators/{evaluator_id}", "gone"),
    Line("PATCH /v1/evaluators/{evaluator_id}", "gone", {"config": {"of": SECRET}}),
    Line("DELETE /v1/evaluators/{evaluator_id}", "gone", ids={"evaluator_id": "unused"}),
    Line("GET /v1/invocations/{invocation_id}/failures", "gone", query="?include=payload"),
    Line("GET /v1/costs", "list", query="?group_by=workflow"),
    Line("POST /v1/evolution-runs", "own", {"id": "made", "goal_text": "o", "generation": {"id": "made"}}),
    Line("GET /v1/evolution-runs", "list", query="?status=running&count=exact"),
    Line("GET /v1/evolution-runs/{run_id}", "gone"),
    Line("PATCH /v1/evolution-runs/{run_id}", "gone", {"notes": SECRET}),
    Line("POST /v1/evolution-runs/{run_id}/heartbeat", "gone"),
    Line("PUT /v1/evolution-runs/{run_id}/checkpoint", "gone", {"of": SECRET}),
    Line("GET /v1/evolution-runs/{run_id}/checkpoint", "gone"),
    Line("POST /v1/evolution-runs/{run_id}/generations", "gone", {"comment": SECRET}),
    Line("GET /v1/evolution-runs/{run_id}/generations", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/generations/by-number/{number}", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/generations/last-completed", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/progress", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/best", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/graph", "gone"),
    Line("GET /v1/evolution-runs/{run_id}/versions", "gone", query="?group_by=dsl_hash"),
    Line("GET /v1/generations/{generation_id}", "gone"),
    Line("PATCH /v1/generations/{generation_id}", "gone", {"feedback": SECRET}),
    Line("PUT /v1/generations/{generation_id}/members", "gone", {"items": [{"version_id": "v"}]}),
    Line("GET /v1/generations/{generation_id}/members", "gone"),
    Line("POST /v1/generations/{generation_id}/complete", "gone", {}, ids={"generation_id": "open"}),
    Line("POST /v1/evolution-runs/{run_id}/complete", "gone", {"status": "failed"}, ids={"run_id": "ending"}),
    Line("POST /v1/evolution-runs/{run_id}/reopen", "gone", ids={"run_id": "ending"}),
    Line("PUT /v1/attachments", "own", query=attached("own", "made", b"made"), content=b"made"),
    Line("GET /v1/attachments", "gone", query="?path=p&id=a&conversation_id=c"),
    Line("GET /v1/attachments/references", "list", query="?path=p&count=exact"),
    Line("DELETE /v1/attachments", "list", query="?path=unused"),
    Line("PUT /v1/memory/spaces/{name}", "own", {"model": "m", "dimensions": 3}, ids={"name": "made"}),
    Line("GET /v1/memory/spaces", "list", query="?count=exact"),
    Line("GET /v1/memory/spaces/{name}", "gone", ids={"name": "space"}),
    Line("POST /v1/memory/spaces/{name}/activate", "gone", {}, ids={"name": "space"}),
    Line("POST /v1/memory/spaces/{name}/reembed", "gone", ids={"name": "space"}),
    Line("POST /v1/memory/spaces/{name}/reindex", "gone", ids={"name": "space"}),
    Line("DELETE /v1/memory/spaces/{name}", "gone", ids={"name": "unused"}),
    Line("POST /v1/memory/search", "gone", {"query": SECRET, "space": "space"}),
    Line("POST /v1/artifacts", "own", content=b"made"),
    Line("GET /v1/artifacts", "list", query="?count=exact"),
    Line("GET /v1/artifacts/{hash}", "gone", ids={"hash": HASH}),
    Line("PUT /v1/invocations/{invocation_id}/artifacts/{name}", "gone", {"hash": HASH}, ids={"name": "a"}),
    Line("GET /v1/invocations/{invocation_id}/artifacts/{name}", "gone", ids={"name": "a"}),
    Line("GET /v1/invocations/{invocation_id}/artifacts", "gone"),
    Line("DELETE /v1/invocations/{invocation_id}/artifacts/{name}", "gone", ids={"name": "unused"}),
    Line("GET /v1/documents", "list", query="?count=exact"),
    Line("PUT /v1/documents/{collection}", "own", {"secret_paths": ["/at"], "history": 1}, ids={"collection": "made"}),
    Line("GET /v1/documents/{collection}", "gone"),
    Line("DELETE /v1/documents/{collection}", "gone", ids={"collection": "unused"}),
    Line("POST /v1/documents/{collection}/query", "list", {"contains": {}}, query="?include=body"),
    Line("PUT /v1/documents/{collection}/{document_id}", "own", {"of": SECRET}, ids={"document_id": "made"}),
    Line("PATCH /v1/documents/{collection}/{document_id}", "own", {"of": SECRET}, ids={"document_id": "made"}),
    Line("GET /v1/documents/{collection}/{document_id}", "gone"),
    Line("GET /v1/documents/{collection}/{document_id}/revisions", "gone", query="?include=body&count=exact"),
    Line("DELETE /v1/documents/{collection}/{document_id}", "gone", ids={"document_id": "unused"}),
    Line("POST /v1/memory/documents", "bare", {"id": "made", "content": SECRET}),
    Line("GET /v1/memory/documents", "list", query="?count=exact"),
    Line("GET /v1/memory/documents/{item_id}", "gone", query="?include=embedding"),
    Line("PATCH /v1/memory/documents/{item_id}", "gone", {"metadata": {"of": SECRET}}),
    Line("DELETE /v1/memory/documents/{item_id}", "gone", ids={"item_id": "unused"}),
    Line("POST /v1/memory/records", "bare", {"items": [{"id": "made", "content": SECRET}]}),
    Line("GET /v1/memory/records", "list", query="?count=exact"),
    Line("GET /v1/memory/records/{item_id}", "gone"),
    Line("PATCH /v1/memory/records/{item_id}", "gone", {"content": SECRET}),
    Line("DELETE /v1/memory/records/{item_id}", "gone", ids={"item_id": "unused"}),
    Line("POST /v1/submissions", "own", {**SUBMISSION, "id": "made", "input": "answered"}),
    Line("GET /v1/submissions", "list", query="?include=input&count=exact"),
    Line("GET /v1/submissions/unsettled", "list"),
    Line("POST /v1/submissions/claim-next", "list", {"owner_id": "somebody", "agent": "unclaimed"}),
    Line("POST /v1/submissions/renew-leases", "list", {**RENEWAL, "submission_ids": ["running"]}),
    Line("GET /v1/submissions/{submission_id}", "gone"),
    Line("DELETE /v1/submissions/{submission_id}", "gone", ids={"submission_id": "settled"}),
    Line("POST /v1/submissions/{submission_id}/ready", "gone"),
    Line("POST /v1/submissions/{submission_id}/claim", "gone", CLAIM, ids={"submission_id": "claimed"}),
    Line(
        "POST /v1/format-stamps/open",
        "own",
        {"name": "format_version", "value": "1", "adopt": {"schema_version": ["8"]}},
    ),
    Line("GET /v1/format-stamps", "list", query="?count=exact"),
    Line("PUT /v1/format-stamps/{name}", "own", {"value": "1"}, ids={"name": "put"}),
    Line("GET /v1/format-stamps/{name}", "gone"),
    Line("DELETE /v1/format-stamps/{name}", "gone", ids={"name": "unused"}),
    Line("POST /v1/leases/{name}/acquire", "own", {"holder": "somebody"}, ids={"name": "made"}),
    Line("POST /v1/leases/{name}/renew", "gone", HOLDING, ids={"name": "lease"}),
    Line("POST /v1/leases/{name}/release", "gone", HOLDING, ids={"name": "unused"}),
    Line("GET /v1/leases/{name}", "gone", ids={"name": "lease"}),
    Line("GET /v1/leases", "list", query="?count=exact"),
    Line("POST /v1/webhooks", "own", {"id": "made", "url": HOOK}),
    Line("GET /v1/webhooks", "list", query="?count=exact"),
    Line("GET /v1/webhooks/{webhook_id}", "gone"),
    Line("PATCH /v1/webhooks/{webhook_id}", "gone", {"description": SECRET, "headers": {"X-Of": SECRET}}),
    Line("POST /v1/webhooks/{webhook_id}/enable", "gone"),
    Line("POST /v1/webhooks/{webhook_id}/rotate-secret", "gone", {}),
    Line("POST /v1/webhooks/{webhook_id}/test", "gone", {"data": SECRET}),
    Line("GET /v1/webhooks/{webhook_id}/deliveries", "gone", query="?include=body"),
    Line("DELETE /v1/webhooks/{webhook_id}", "gone", ids={"webhook_id": "unused"}),
    Line("GET /v1/deliveries", "list", query="?include=body&count=exact"),
    Line("GET /v1/deliveries/{delivery_id}", "gone", query="?include=body"),
    Line("POST /v1/deliveries/{delivery_id}/redeliver", "gone"),
    Line("GET /v1/dead-letters", "list", query="?count=exact"),
    Line("GET /v1/dead-letters/{letter_id}", "gone"),
    Line("POST /v1/dead-letters/{letter_id}/replay", "gone", ids={"letter_id": "{replayed_letter_id}"}),
    Line("POST /v1/dead-letters/replay", "list", {"subject": "none"}),
    Line("DELETE /v1/dead-letters", "list", query="?subject=none"),
    Line("DELETE /v1/dead-letters/{letter_id}", "gone", ids={"letter_id": "{deleted_letter_id}"}),
    *(
        Line(f"POST /v1/submissions/{{submission_id}}/{call}", "gone", {**OWNED, **more}, ids={"submission_id": name})
        for call, name, more in (
            ("input-applied", "working", {}),
            ("recovery-request", "working", {}),
            ("requeue", "requeued", {"error": SECRET}),
            ("replace-attempt", "replaced", {"next_attempt_id": "t2"}),
            ("complete", "completed", {}),
            ("fail", "failed", {"error": SECRET}),
            ("settlement/reserve", "reserved", RESERVATION),
            ("settlement/finalize", "final", FINALIZATION),
            ("joins/claim", "working", {"agent": SECRET}),
        )
    ),
    Line(
        "POST /v1/submissions/{submission_id}/settle-queued",
        "gone",
        {"outcome": "failed", "error": SECRET},
        ids={"submission_id": "ended"},
    ),
    *(
        Line(
            f"POST /v1/submissions/{{submission_id}}/joins/{{child_id}}/{call}",
            "gone",
            OWNED,
            ids={"submission_id": "host", "child_id": call},
        )
        for call in ("finalize", "revert")
    ),
    Line("GET /v1/submissions/{submission_id}/joins", "gone", query="?include=input", ids={"submission_id": "host"}),
    Line("GET /v1/settlements", "list", query="?count=exact"),
    Line("POST /v1/submissions/abort-session", "list", {"session_key": "queued"}),
    Line("PUT /v1/attempt-markers", "own", query=MARKER.format("made")),
    Line("GET /v1/attempt-markers", "list", query="?submission_id=m&count=exact"),
    Line("DELETE /v1/attempt-markers", "list", query=MARKER.format("unused")),
    Line("POST /v1/batch", "gone", {"operations": [{"method": "GET", "path": "/v1/invocations/i?include=input"}]}),
    Line("PUT /v1/conversations", "own", {"path": "made", "identity": {"agent_name": "a", "instance_id": "i"}}),
    Line("GET /v1/conversations", "list", query="?count=exact"),
    Line("GET /v1/conversations/meta", "gone", query="?path=conv"),
    Line("GET /v1/conversations/read", "list", query="?path=conv"),
    Line("GET /v1/conversations/events", "waits", query="?path=conv"),
    Line("POST /v1/conversations/acquire", "gone", {"path": "taken", "producer_id": "p"}),
    Line("POST /v1/conversations/append", "gone", {**APPEND, "records": [{"of": SECRET}]}),
    Line("PUT /v1/conversations/checkpoint", "own", {**CHECKPOINT, "data": SECRET}, query="?path=conv"),
    Line("GET /v1/conversations/checkpoint", "gone", query="?path=conv"),
    Line("DELETE /v1/conversations", "gone", query="?path=unused"),
    Line("GET /v1/events", "list", query="?include=dsl,input,output"),
    Line("POST /v1/backups", "own", {"label": "made"}),
    Line("GET /v1/backups", "list", query="?include=manifest"),
    Line("GET /v1/backups/{backup_id}", "gone"),
    Line("GET /v1/backups/{backup_id}/content", "gone"),
    Line("POST /v1/backups/{backup_id}/verify", "gone"),
    Line("POST /v1/backups/restore", "own", content=b"no backup, as its job finds"),
    Line("DELETE /v1/backups/{backup_id}", "gone", ids={"backup_id": "{unused_backup_id}"}),
    Line("GET /v1/jobs", "list"),
    Line("GET /v1/jobs/{job_id}", "gone"),
    Line("POST /v1/jobs/{job_id}/cancel", "gone"),
    Line("GET /healthz", "open"),
    Line("GET /readyz", "open"),
    Line("GET /metrics", "open"),
    Line("GET /v1/capabilities", "open"),
    Line("GET /v1/schema", "open"),
    Line("GET /v1/schema/decisions", "open"),
    Line("GET /problems", "open"),
    Line("GET /problems/{code}", "open", ids={"code": "not_found"}),
]


async def arrange(client: httpx.AsyncClient, tenant_id: str, database_url: str) -> dict[str, str]:
    """What the lines refer to, made as the client's own; gives the ids."""

    async def made(method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await client.request(method, path, json=body)
        assert answer.status_code in (200, 201, 202), f"{method} {path}: {answer.text}"
        return answer

    workflow = {"name": SECRET, "metadata": {"of": SECRET}}
    for workflow_id in ("w", "empty", "doomed"):
        await made("PUT", f"/v1/workflows/{workflow_id}", workflow)
    await made("POST", "/v1/workflows/w/versions", {**VERSION, "id": "v", "commit_message": SECRET})
    child = {**VERSION, "id": "child", "operation": "mutation", "parent1_id": "v", "commit_message": SECRET}
    await made("POST", "/v1/workflows/w/versions", child)
    await made("PUT", "/v1/versions/v/io", {"of": SECRET})
    await made("PUT", "/v1/versions/v/nodes/n/memory", {"of": SECRET})
    invocation = {"version_id": "v", "input": {"of": SECRET}, "feedback": SECRET, "usd_cost": COST}
    for invocation_id in ("i", "ending", "ended"):
        await made("POST", "/v1/invocations", {**invocation, "id": invocation_id})
    await made("POST", "/v1/invocations", {**invocation, "id": "queued", "status": "queued"})
    await made("POST", "/v1/invocations/ended/end", {"status": "completed", "output": SECRET})
    node = {"id": "ni", "node_id": "n", "summary": SECRET, "usd_cost": COST}
    await made("POST", "/v1/invocations/i/nodes", node)
    await made("POST", "/v1/invocations/i/nodes/ni/actions", {"id": "a", "tool": SECRET, "input": SECRET})
    await made("POST", "/v1/invocations/i/messages", {"id": "m", "role": "r", "payload": SECRET})
    for session_id in ("s", "unused"):
        await made("POST", "/v1/sessions", {"id": session_id, "owner_id": SECRET, "metadata": {"of": SECRET}})
    await made("POST", "/v1/invocations/i/checkpoints", {"number": 0, "node_id": "n", "state": SECRET})
    for name in ("key", "moving", "unused", "cleared"):
        context = {"summary": SECRET, "metadata": f'{{"of":"{SECRET}"}}'}
        path = f"/v1/invocations/i/contexts/workflow/{name}"
        answer = await client.put(path, params=context, content=SECRET.encode())
        assert answer.status_code == 201, answer.text
    for name in ("srv", "unused"):
        server = {"id": name, "publisher_id": SECRET, "slug": name, "display_name": SECRET}
        await made("POST", "/v1/mcp/servers", server)
        await made("POST", "/v1/mcp/servers/srv/versions", {"id": "v" if name == "srv" else name, "version": name})
        tool = {"name": "t" if name == "srv" else name, "description": SECRET, "input_schema": {"of": SECRET}}
        await made("POST", "/v1/mcp/servers/srv/versions/v/tools", tool)
        config = {"id": "c" if name == "srv" else name, "user_id": "u", "name": name, "config": {"command": SECRET}}
        await made("POST", "/v1/mcp/configs", config)
    for dataset_id in ("d", "unused"):
        await made("POST", "/v1/datasets", {"id": dataset_id, "name": SECRET, "owner_id": SECRET})
        await made("POST", "/v1/evaluators", {"id": dataset_id, "name": SECRET, "config": {"of": SECRET}})
    await made("POST", "/v1/datasets/d/versions", {"id": "dv", "name": SECRET})
    records = [{"id": name, "workflow_input": SECRET, "ground_truth": {"of": SECRET}} for name in ("r", "unused")]
    await made("POST", "/v1/datasets/d/records", {"items": records})
    await made("POST", "/v1/invocations/i/messages", {"id": "wrong", "role": "error", "payload": SECRET})
    await made("POST", "/v1/invocations/i/evaluations", {"id": "e", "feedback": SECRET})
    for name in ("lease", "unused"):
        await made("POST", f"/v1/leases/{name}/acquire", {"holder": SECRET, "lease_seconds": 3600})
    for name in ("space", "unused"):
        await made("PUT", f"/v1/memory/spaces/{name}", {"model": SECRET, "dimensions": 3})
        item = {"id": "item" if name == "space" else name, "content": SECRET, "metadata": {"of": SECRET}}
        await made("POST", "/v1/memory/documents", {**item, "embedding": [1, 2, 3]})
        await made("POST", "/v1/memory/records", item)
    for name in ("stamp", "unused"):
        await made("PUT", f"/v1/format-stamps/{name}", {"value": SECRET})
    await made("PUT", "/v1/format-stamps/schema_version", {"value": "8"})
    await made("PUT", "/v1/maintenance/schedule", {"every_seconds": 3600})
    for name in ("i", "ending"):
        await made("PUT", f"/v1/pins/invocation/{name}", {})
    for path in ("p", "unused"):
        query = attached(path, "a", SECRET.encode()).replace("filename=a", f"filename={SECRET}")
        answer = await client.put(f"/v1/attachments{query}", content=SECRET.encode())
        assert answer.status_code == 201, answer.text
    assert (await client.post("/v1/artifacts", content=SECRET.encode())).status_code == 201
    for name in ("a", "unused"):
        await made("PUT", f"/v1/invocations/i/artifacts/{name}", {"hash": HASH, "metadata": {"of": SECRET}})
    for name in ("col", "unused"):
        await made("PUT", f"/v1/documents/{name}", {"history": 2})
    for name in ("d", "d", "unused"):
        await made("PUT", f"/v1/documents/col/{name}", {"of": SECRET})
    for run_id in ("run", "ending"):
        await made("POST", "/v1/evolution-runs", {"id": run_id, "goal_text": SECRET, "config": {"of": SECRET}})
    await made("PUT", "/v1/evolution-runs/run/checkpoint", {"of": SECRET})
    for generation_id in ("g", "open"):
        await made("POST", "/v1/evolution-runs/run/generations", {"id": generation_id, "comment": SECRET})
    await made("PUT", "/v1/generations/g/members", {"items": [{"version_id": "v", "fitness": 0.5}]})
    await made("POST", "/v1/generations/g/complete", {"best_version_id": "v", "stats": {"evaluation_cost": COST}})
    for key_id in ("k", "spare"):
        await made("POST", "/v1/api-keys", {"id": key_id, "name": SECRET, "scopes": ["workflows:read"]})
    incarnation = await arrange_conversations(made)
    letters = await arrange_submissions(made)
    delivery_id = await arrange_webhooks(made)
    await end_deliveries(database_url, tenant_id)
    backups = [(await made("POST", "/v1/backups", {"label": SECRET})).json()["id"] for _ in range(2)]
    await complete_backups(database_url, tenant_id)
    await arrange_offboardings(database_url, tenant_id)
    job = await made("DELETE", "/v1/workflows/doomed?cascade=true")
    return {
        "incarnation": incarnation,
        "tenant_id": tenant_id,
        "leaving_id": f"leaving-{tenant_id}",
        "offboarding_id": "off",
        "exported_id": f"exported-{tenant_id}",
        "cancelled_id": f"cancelled-{tenant_id}",
        "workflow_id": "w",
        "version_id": "v",
        "other_id": "child",
        "node_id": "n",
        "invocation_id": "i",
        "node_invocation_id": "ni",
        "message_id": "m",
        "run_id": "run",
        "generation_id": "g",
        "number": "0",
        "key_id": "k",
        "session_id": "s",
        "item_id": "item",
        "server_id": "srv",
        "tool_name": "t",
        "config_id": "c",
        "user_id": "u",
        "dataset_id": "d",
        "record_id": "r",
        "evaluator_id": "d",
        "submission_id": "queued",
        "job_id": job.json()["id"],
        "name": "stamp",
        "scope": "workflow",
        "key": "key",
        "collection": "col",
        "document_id": "d",
        **letters,
        "webhook_id": "wh",
        "delivery_id": delivery_id,
        "backup_id": backups[0],
        "unused_backup_id": backups[1],
    }


async def arrange_webhooks(made: Callable[..., Awaitable[httpx.Response]]) -> str:
    """Webhooks, and a delivery, whose id it gives."""
    for name in ("wh", "unused"):
        hook = {"id": name, "url": HOOK, "description": SECRET, "headers": {"X-Of": SECRET}}
        await made("POST", "/v1/webhooks", hook)
    return str((await made("POST", "/v1/webhooks/wh/test", {"data": SECRET})).json()["id"])


async def complete_backups(database_url: str, tenant_id: str) -> None:
    """As if every backup had been made, of nothing: that is done beside the requests too."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "UPDATE backups SET manifest = json_build_object('of', $2::text), size_bytes = 0, digest = sha256(''),"
            " completed_at = now() WHERE tenant_id = $1",
            tenant_id,
            SECRET,
        )
        await connection.execute(
            "UPDATE jobs SET state = 'completed', ended_at = now() WHERE tenant_id = $1 AND kind = 'backup.create'",
            tenant_id,
        )
    finally:
        await connection.close()


async def end_deliveries(database_url: str, tenant_id: str) -> None:
    """As if every delivery had arrived: that is done beside the requests."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "UPDATE webhook_deliveries SET status = 'delivered', ended_at = now() WHERE tenant_id = $1", tenant_id
        )
    finally:
        await connection.close()


async def arrange_offboardings(database_url: str, tenant_id: str) -> None:
    """A tenant that has left, one that may leave, and two whose exports were made, of nothing: the operator's work."""
    receipt = {
        "offboarding_id": "off", "tenant_sha256": HASH, "counts": {}, "started_at": "2026-01-01T00:00:00.000000Z",
        "ended_at": "2026-01-01T00:00:00.000000Z", "verified_zero": True, "server_version": "0",
    }  # fmt: skip
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "INSERT INTO offboardings (tenant_id, id, state, receipt, ended_at)"
            " VALUES ($1, 'off', 'completed', $2, now()) ON CONFLICT DO NOTHING",
            f"sha256:{HASH}", json.dumps({"receipt": receipt, "signature": None}),
        )  # fmt: skip
        names = [f"{state}-{tenant_id}" for state in ("leaving", "exported", "cancelled")]
        await connection.executemany("INSERT INTO tenants (tenant_id) VALUES ($1)", [(name,) for name in names])
        for name in names[1:]:
            await connection.execute(
                "INSERT INTO backups (tenant_id, id, artifacts, job_id, manifest, size_bytes, digest, completed_at)"
                " VALUES ($1, 'b', 'bytes', 'j', '{}', 0, sha256(''), now())",
                name,
            )
            await connection.execute(
                "INSERT INTO offboardings (tenant_id, id, state, backup_id) VALUES ($1, $1, 'exporting', 'b')", name
            )
    finally:
        await connection.close()


async def arrange_submissions(made: Callable[..., Awaitable[httpx.Response]]) -> dict[str, str]:
    """Submissions in every state, each in a session of its own but those that join; gives the ids of dead letters."""
    running = (
        "running",
        "working",
        "requeued",
        "replaced",
        "completed",
        "failed",
        "reserved",
        "final",
        "host",
        "settled",
    )
    for name in ("queued", "claimed", "ended", *running):
        await made("POST", "/v1/submissions", {**SUBMISSION, "id": name, "session_key": name, "agent": SECRET})
    for name in running:
        await made("POST", f"/v1/submissions/{name}/claim", CLAIM)
    for name in ("finalize", "revert"):
        await made("POST", "/v1/submissions", {**SUBMISSION, "id": name, "session_key": "host", "agent": SECRET})
    await made("POST", "/v1/submissions/settled/complete", OWNED)
    await made("POST", "/v1/submissions/host/joins/claim", {**OWNED, "agent": SECRET})
    await made("POST", "/v1/submissions/final/settlement/reserve", RESERVATION)
    for name in ("t", "unused"):
        await made("PUT", f"/v1/attempt-markers{MARKER.format(name)}")
    letters = {}
    for name in ("letter_id", "replayed_letter_id", "deleted_letter_id"):
        await made("POST", "/v1/submissions", {**SUBMISSION, "id": name, "session_key": name, "max_attempts": 1})
        await made("POST", f"/v1/submissions/{name}/claim", CLAIM)
        await made("POST", f"/v1/submissions/{name}/requeue", {**OWNED, "error": SECRET})
        found = (await made("GET", f"/v1/dead-letters?subject={name}")).json()["items"]
        letters[name] = str(found[0]["id"])
    return letters


async def arrange_conversations(made: Callable[..., Awaitable[httpx.Response]]) -> str:
    """Conversations, one with a batch that JSON writes in one way only; gives its incarnation."""
    for path in ("conv", "taken", "unused"):
        identity = {"agent_name": SECRET, "instance_id": SECRET}
        await made("PUT", "/v1/conversations", {"path": path, "identity": identity})
    claim = (await made("POST", "/v1/conversations/acquire", {"path": "conv", "producer_id": "p"})).json()
    append = {**APPEND, "incarnation": claim["incarnation"]}
    for sequence, records in enumerate(([{}], [{"of": SECRET}])):
        await made("POST", "/v1/conversations/append", {**append, "producer_sequence": sequence, "records": records})
    await made("PUT", "/v1/conversations/checkpoint?path=conv", {**CHECKPOINT, "data": SECRET})
    return str(claim["incarnation"])
