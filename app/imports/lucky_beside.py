"""What stands beside the runs of Lucky: datasets, evaluators and what they said, and the registry of MCP servers."""

from __future__ import annotations

from app.imports.fields import flag, identifier, instant, one_of, payload, score, searchable, searchable_object, words
from app.imports.lucky_rows import EMPTY, finish_evaluator, finish_mcp_config, finish_mcp_server
from app.imports.mapping import TableMapping

DATASET = TableMapping(
    "DataSet",
    "datasets",
    {
        "dataset_id": ("id", identifier),
        "name": ("name", words),
        "description": ("description", words),
        "data_format": ("data_format", words),
        "status": ("status", words),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
        "updated_at": ("updated_at", instant),
    },
    required=("dataset_id", "name", "created_at", "updated_at"),
    keeps="metadata",
)
DATASET_VERSION = TableMapping(
    "DatasetVersion",
    "dataset_versions",
    {
        "dataset_version_id": ("id", identifier),
        "dataset_id": ("dataset_id", identifier),
        "name": ("name", words),
        "version_label": ("version_label", words),
        "snapshot_metadata": ("snapshot_metadata", searchable),
        "created_at": ("created_at", instant),
    },
    required=("dataset_version_id", "dataset_id", "created_at"),
    references={"dataset_id": "datasets"},
    key=("dataset_id", "id"),
)
DATASET_RECORD = TableMapping(
    "DatasetRecord",
    "dataset_records",
    {
        "dataset_record_id": ("id", identifier),
        "dataset_id": ("dataset_id", identifier),
        "dataset_version_id": ("dataset_version_id", identifier),
        "workflow_input": ("workflow_input", payload),
        "ground_truth": ("ground_truth", payload),
        "output_schema_json": ("output_schema", searchable),
        "rubric": ("rubric", searchable),
        "created_at": ("created_at", instant),
    },
    required=("dataset_record_id", "dataset_id", "created_at"),
    references={"dataset_id": "datasets", "dataset_version_id": "dataset_versions"},
)
EVALUATOR = TableMapping(
    "Evaluator",
    "evaluators",
    {
        "evaluator_id": ("id", identifier),
        "name": ("name", words),
        "config": ("config", searchable),
        "rubric": ("rubric", searchable),
        "clerk_id": ("owner_id", identifier),
        "created_at": ("created_at", instant),
    },
    required=("evaluator_id", "name", "created_at"),
    finish=finish_evaluator,
    defaults={"updated_at": None},
)
EVALUATION = TableMapping(
    "WorkflowInvocationEval",
    "evaluations",
    {
        "wf_inv_eval_id": ("id", identifier),
        "wf_inv_id": ("invocation_id", identifier),
        "accuracy": ("accuracy", score),
        "feedback": ("feedback", words),
        "created_at": ("created_at", instant),
    },
    required=("wf_inv_eval_id", "created_at"),
    keeps="metadata",
    references={"invocation_id": "invocations"},
    key=("invocation_id", "id"),
    needs={"invocation_id": "belongs to no workflow invocation: its wf_inv_id is null"},
)
MCP_SERVER = TableMapping(
    "mcp.servers",
    "mcp_servers",
    {
        "server_id": ("id", identifier),
        "publisher_org_id": ("publisher_id", identifier),
        "slug": ("slug", identifier),
        "display_name": ("display_name", words),
        "short_description": ("short_description", words),
        "long_description": ("long_description", words),
        "homepage_url": ("homepage_url", words),
        "repo_url": ("repo_url", words),
        "logo_url": ("logo_url", words),
        "visibility": ("visibility", one_of("public", "unlisted", "private")),
        "created_at": ("created_at", instant),
    },
    required=("server_id", "publisher_org_id", "slug", "display_name", "visibility", "created_at"),
    finish=finish_mcp_server,
    defaults={"updated_at": None},
)
MCP_VERSION = TableMapping(
    "mcp.server_versions",
    "mcp_versions",
    {
        "sver_id": ("id", identifier),
        "server_id": ("server_id", identifier),
        "version": ("version", identifier),
        "status": ("status", one_of("draft", "in_review", "testflight", "released", "rejected", "yanked")),
        "mcp_spec_version": ("mcp_spec_version", words),
        "manifest_hash": ("manifest_hash", words),
        "capabilities_json": ("capabilities", searchable_object),
        "listed": ("listed", flag),
        "release_notes": ("release_notes", words),
        "source_ref": ("source_ref", words),
        "tools_list_changed": ("tools_list_changed", flag),
        "prompts_list_changed": ("prompts_list_changed", flag),
        "resources_list_changed": ("resources_list_changed", flag),
        "resources_subscribe": ("resources_subscribe", flag),
        "created_at": ("created_at", instant),
    },
    required=("sver_id", "server_id", "version", "status", "created_at"),
    finish=finish_mcp_server,
    references={"server_id": "mcp_servers"},
    key=("server_id", "id"),
    defaults={"capabilities": EMPTY, "listed": False, "updated_at": None},
)
MCP_TOOL = TableMapping(
    "mcp.tools",
    "mcp_tools",
    {
        "name": ("name", identifier),
        "sver_id": ("version_id", identifier),
        "title": ("title", words),
        "display_title": ("display_title", words),
        "description": ("description", words),
        "input_schema_json": ("input_schema", searchable),
        "output_schema_json": ("output_schema", searchable),
        "annotations_json": ("annotations", searchable),
        "traits_json": ("traits", searchable),
        "active": ("active", flag),
        "created_at": ("created_at", instant),
    },
    required=("name", "sver_id", "input_schema_json", "created_at"),
    references={"version_id": "mcp_versions"},
    key=("server_id", "version_id", "name"),
    defaults={"server_id": None, "traits": EMPTY, "active": True},
)
MCP_CONFIG = TableMapping(
    "mcp.user_server_configs",
    "mcp_configs",
    {
        "usco_id": ("id", identifier),
        "user_id": ("user_id", identifier),
        "name": ("name", identifier),
        "server_id": ("server_id", identifier),
        "config_json": ("config", searchable_object),
        "enabled": ("enabled", flag),
        "created_at": ("created_at", instant),
        "updated_at": ("updated_at", instant),
    },
    required=("usco_id", "user_id", "name", "created_at", "updated_at"),
    finish=finish_mcp_config,
    references={"server_id": "mcp_servers"},
    defaults={"config": EMPTY, "enabled": True},
)
