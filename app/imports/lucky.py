"""The tables of Lucky, and what each becomes. The mapping for readers is docs/lucky.md, which a test holds complete."""

from __future__ import annotations

from app.imports.fields import (
    identifier,
    instant,
    money,
    natural,
    one_of,
    payload,
    score,
    searchable,
    searchable_object,
    texts,
    whole,
    words,
)
from app.imports.lucky_beside import (
    DATASET,
    DATASET_RECORD,
    DATASET_VERSION,
    EVALUATION,
    EVALUATOR,
    MCP_CONFIG,
    MCP_SERVER,
    MCP_TOOL,
    MCP_VERSION,
)
from app.imports.lucky_rows import (
    EMPTY,
    finish_invocation,
    finish_node_invocation,
    finish_node_version,
    finish_run,
    finish_version,
)
from app.imports.mapping import TableMapping

_INVOCATION_STATUSES = one_of("running", "completed", "failed", "rolled_back", "queued", "cancelled")

WORKFLOW = TableMapping(
    "Workflow",
    "workflows",
    {
        "wf_id": ("id", identifier),
        "name": ("name", words),
        "description": ("description", words),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
        "updated_at": ("updated_at", instant),
    },
    required=("wf_id", "created_at", "updated_at"),
    keeps="metadata",
)
EVOLUTION_RUN = TableMapping(
    "EvolutionRun",
    "evolution_runs",
    {
        "run_id": ("id", identifier),
        "goal_text": ("goal_text", words),
        "config": ("config", searchable_object),
        "status": ("status", one_of("running", "completed", "failed", "interrupted", "cancelled")),
        "evolution_type": ("evolution_type", words),
        "notes": ("notes", words),
        "clerk_id": ("owner_id", identifier),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
    },
    required=("run_id", "status", "start_time"),
    finish=finish_run,
    defaults={"config": EMPTY},
)
GENERATION = TableMapping(
    "Generation",
    "generations",
    {
        "generation_id": ("id", identifier),
        "run_id": ("run_id", identifier),
        "number": ("number", natural),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "best_workflow_version_id": ("best_version_id", identifier),
        "comment": ("comment", words),
        "feedback": ("feedback", words),
    },
    required=("generation_id", "run_id", "number", "start_time"),
    references={"run_id": "evolution_runs", "best_version_id": "versions"},
)
VERSION = TableMapping(
    "WorkflowVersion",
    "versions",
    {
        "wf_version_id": ("id", identifier),
        "workflow_id": ("workflow_id", identifier),
        "dsl": ("dsl", payload),
        "operation": ("operation", one_of("init", "crossover", "mutation", "immigrant")),
        "parent1_id": ("parent1_id", identifier),
        "parent2_id": ("parent2_id", identifier),
        "parent_id": ("parent_id", identifier),
        "generation_id": ("generation_id", identifier),
        "commit_message": ("commit_message", words),
        "iteration_budget": ("iteration_budget", natural),
        "time_budget_seconds": ("time_budget_seconds", natural),
        "input_schema": ("input_schema", searchable),
        "output_schema": ("output_schema", searchable),
        "knowledge": ("knowledge", searchable),
        "all_workflow_io": ("io", payload),
        "created_at": ("created_at", instant),
        "updated_at": ("io_updated_at", instant),
    },
    required=("wf_version_id", "workflow_id", "dsl", "created_at"),
    finish=finish_version,
    extra={"parent_id": "text", "io": "json", "io_updated_at": "timestamptz"},
    references={"workflow_id": "workflows", "generation_id": "generations"},
    defaults={"operation": "init", "parents_unknown": False, "dsl_hash": None},
)
NODE_VERSION = TableMapping(
    "NodeVersion",
    "node_versions",
    {
        "node_version_id": ("id", identifier),
        "wf_version_id": ("version_id", identifier),
        "node_id": ("node_id", identifier),
        "version": ("revision", natural),
        "system_prompt": ("system_prompt", words),
        "llm_model": ("llm_model", words),
        "tools": ("tools", texts),
        "description": ("description", words),
        "handoffs": ("handoffs", texts),
        "waiting_for": ("waiting_for", texts),
        "memory": ("memory", searchable_object),
        "extras": ("extras", searchable),
        "created_at": ("created_at", instant),
    },
    required=("node_version_id", "wf_version_id", "node_id", "version", "created_at"),
    keeps="extras",
    passed_over=("updated_at",),
    finish=finish_node_version,
    references={"version_id": "versions"},
    extra={"kept_id": "text"},
    defaults={"tools": (), "handoffs": (), "waiting_for": (), "config_hash": None},
)
INVOCATION = TableMapping(
    "WorkflowInvocation",
    "invocations",
    {
        "wf_invocation_id": ("id", identifier),
        "wf_version_id": ("version_id", identifier),
        "run_id": ("run_id", identifier),
        "generation_id": ("generation_id", identifier),
        "dataset_record_id": ("dataset_record_id", identifier),
        "evaluator_id": ("evaluator_id", identifier),
        "status": ("status", _INVOCATION_STATUSES),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "workflow_input": ("input", payload),
        "workflow_output": ("output", payload),
        "expected_output": ("expected_output", words),
        "expected_output_type": ("expected_output_type", searchable),
        "actual_output": ("actual_output", words),
        "usd_cost": ("usd_cost", money),
        "fitness": ("fitness", payload),
        "fitness_score": ("fitness_score", score),
        "accuracy": ("accuracy", score),
        "novelty": ("novelty", score),
        "feedback": ("feedback", words),
        "preparation": ("preparation", words),
        "metadata": ("metadata", searchable),
        "extras": ("extras", searchable),
    },
    required=("wf_invocation_id", "wf_version_id", "status", "start_time"),
    keeps="extras",
    finish=finish_invocation,
    references={
        "version_id": "versions",
        "run_id": "evolution_runs",
        "generation_id": "generations",
        "dataset_record_id": "dataset_records",
        "evaluator_id": "evaluators",
    },
    defaults={"metadata": EMPTY, "workflow_id": None, "created_at": None, "updated_at": None},
)
NODE_INVOCATION = TableMapping(
    "NodeInvocation",
    "node_invocations",
    {
        "node_invocation_id": ("id", identifier),
        "wf_invocation_id": ("invocation_id", identifier),
        "wf_version_id": ("version_id", identifier),
        "node_id": ("node_id", identifier),
        "node_version_id": ("node_version_id", identifier),
        "attempt_no": ("attempt_no", natural),
        "status": ("status", _INVOCATION_STATUSES),
        "start_time": ("started_at", instant),
        "end_time": ("ended_at", instant),
        "model": ("model", words),
        "output": ("output", payload),
        "summary": ("summary", words),
        "large_summary": ("large_summary", words),
        "usd_cost": ("usd_cost", money),
        "files": ("files", texts),
        "error": ("error", searchable),
        "metadata": ("metadata", searchable),
        "extras": ("extras", searchable),
    },
    required=("node_invocation_id", "node_id", "status", "start_time"),
    keeps="extras",
    passed_over=("updated_at",),
    finish=finish_node_invocation,
    extra={"version_id": "text"},
    references={"invocation_id": "invocations", "node_version_id": "node_versions"},
    key=("invocation_id", "id"),
    needs={"invocation_id": "belongs to no workflow invocation: its wf_invocation_id is null"},
    defaults={"attempt_no": 1, "files": (), "metadata": EMPTY, "created_at": None},
)
MESSAGE = TableMapping(
    "Message",
    "messages",
    {
        "msg_id": ("id", identifier),
        "wf_invocation_id": ("invocation_id", identifier),
        "seq": ("seq", whole),
        "from_node_id": ("from_node_id", identifier),
        "to_node_id": ("to_node_id", identifier),
        "origin_invocation_id": ("origin_node_invocation_id", identifier),
        "target_invocation_id": ("target_node_invocation_id", identifier),
        "role": ("role", words),
        "payload": ("payload", payload),
        "created_at": ("created_at", instant),
    },
    required=("msg_id", "wf_invocation_id", "role", "created_at"),
    references={"invocation_id": "invocations"},
    key=("invocation_id", "id"),
    defaults={"seq": 0},
)
# In the order in which they are stored: what is pointed to comes first.
TABLES = (
    WORKFLOW, DATASET, DATASET_VERSION, DATASET_RECORD, EVALUATOR, EVOLUTION_RUN, GENERATION, VERSION, NODE_VERSION,
    INVOCATION, NODE_INVOCATION, MESSAGE, EVALUATION, MCP_SERVER, MCP_VERSION, MCP_TOOL, MCP_CONFIG,
)  # fmt: skip

_SIGN_IN = "people and organisations sign in elsewhere; Cairn has tenants and API keys"
_SECRETS = "Cairn keeps no secrets; its own API keys are made with `cairn keys create`"
_UNUSED = "no code of Lucky read or wrote it; the registry has servers, versions, tools and configurations"
LEFT_OUT = {
    "feedback": "words of users about the product, superseded by app.feedback; no part of the record",
    "app.errors": "the log of the application's own errors; no part of the record",
    "app.feedback": "words of users about the product; no part of the record",
    "app.gateway_settings": "preferences of the application's users",
    "app.user_onboarding": "preferences of the application's users",
    "app.user_profile": "preferences of the application's users",
    "iam.org_invites": _SIGN_IN,
    "iam.org_memberships": _SIGN_IN,
    "iam.orgs": _SIGN_IN,
    "iam.users": _SIGN_IN,
    **{
        f"mcp.{name}": _UNUSED
        for name in (
            "approvals", "beta_access", "health_checks", "org_access", "prompts", "resources", "review_events",
            "server_instances", "server_tags", "server_transports", "tags",
        )
    },
    "mcp.server_transport_secrets": "secret values are never stored; a configuration refers to them",
    "lockbox.secret_keys": _SECRETS,
    "lockbox.user_secrets": _SECRETS,
}  # fmt: skip
UNKNOWN = "no table of Lucky has this name"
