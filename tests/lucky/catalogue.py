"""The names of Lucky: its tables and columns, its methods, its errors. What a page and a suite are held complete by."""

from __future__ import annotations


def _columns(listed: str) -> dict[str, str]:
    return dict(column.split(" ", 1) for column in listed.split(", "))


# Column names with their types; `?` may be null. Documented for October 2025.
TABLES: dict[str, dict[str, str]] = {
    "DataSet": _columns(
        "clerk_id text, created_at timestamptz, data_format text?, dataset_id text, description text?, name text, "
        "status text?, updated_at timestamptz"
    ),
    "DatasetRecord": _columns(
        "created_at timestamptz, dataset_id text, dataset_record_id text, dataset_version_id text?, "
        "ground_truth jsonb?, output_schema_json jsonb?, rubric jsonb?, workflow_input jsonb?"
    ),
    "DatasetVersion": _columns(
        "created_at timestamptz, dataset_id text, dataset_version_id text, name text?, snapshot_metadata jsonb?, "
        "version_label text?"
    ),
    "Evaluator": _columns(
        "clerk_id text, config jsonb?, created_at timestamptz, evaluator_id text, name text, rubric jsonb?"
    ),
    "EvolutionRun": _columns(
        "clerk_id text?, config jsonb, end_time timestamptz?, evolution_type text?, goal_text text, notes text?, "
        "run_id text, start_time timestamptz, status run_status"
    ),
    "feedback": _columns(
        "clerk_id text?, content text, context text?, created_at timestamptz?, feedback_id text, status text?"
    ),
    "Generation": _columns(
        "best_workflow_version_id text?, clerk_id text?, comment text?, end_time timestamptz?, feedback text?, "
        "generation_id text, number integer, run_id text, start_time timestamptz"
    ),
    "Message": _columns(
        "created_at timestamptz, from_node_id text?, msg_id text, origin_invocation_id text?, payload jsonb, "
        "role role, seq integer, target_invocation_id text?, to_node_id text?, wf_invocation_id text"
    ),
    "NodeInvocation": _columns(
        "attempt_no integer, end_time timestamptz?, error jsonb?, extras jsonb?, files text[]?, metadata jsonb?, "
        "model text?, node_id text, node_invocation_id text, node_version_id text?, output jsonb?, "
        "start_time timestamptz, status status, summary text?, updated_at timestamptz, usd_cost numeric, "
        "wf_invocation_id text?, wf_version_id text"
    ),
    "NodeVersion": _columns(
        "created_at timestamptz, description text?, extras jsonb, handoffs text[]?, llm_model text, "
        "memory jsonb?, node_id text, node_version_id text, system_prompt text, tools text[], "
        "updated_at timestamptz, version integer, waiting_for text[]?, wf_version_id text"
    ),
    "Workflow": _columns(
        "clerk_id text?, created_at timestamptz, description text, updated_at timestamptz, wf_id text"
    ),
    "WorkflowInvocation": _columns(
        "actual_output text?, dataset_record_id text?, end_time timestamptz?, evaluator_id text?, "
        "expected_output text?, expected_output_type jsonb?, extras jsonb?, feedback text?, fitness jsonb?, "
        "generation_id text?, preparation text?, run_id text?, start_time timestamptz, status status, "
        "usd_cost numeric, wf_invocation_id text, wf_version_id text, workflow_input jsonb?, "
        "workflow_output jsonb?"
    ),
    "WorkflowInvocationEval": _columns(
        "accuracy numeric?, created_at timestamptz, feedback text?, wf_inv_eval_id text, wf_inv_id text?"
    ),
    "WorkflowVersion": _columns(
        "commit_message text, created_at timestamptz, dsl jsonb, generation_id text?, input_schema jsonb, "
        "iteration_budget integer, knowledge jsonb?, operation operation, output_schema jsonb?, parent_id text?, "
        "parent1_id text?, parent2_id text?, time_budget_seconds integer, updated_at timestamptz, "
        "wf_version_id text, workflow_id text"
    ),
    "mcp.approvals": _columns(
        "actor_id text, appr_id text, decided_at timestamptz, decision text, reason text?, subject_id text, "
        "subject_type text"
    ),
    "mcp.beta_access": _columns("cohort text, granted_at timestamptz, granted_by text?, org_id text, sver_id text"),
    "mcp.health_checks": _columns(
        "checked_at timestamptz, details_json jsonb?, error_message text?, hchk_id text, inst_id text, "
        "latency_ms integer?, probe_kind text, status text"
    ),
    "mcp.org_access": _columns("granted_at timestamptz, granted_by text?, level text, org_id text, server_id text"),
    "mcp.prompts": _columns(
        "arguments_json jsonb?, created_at timestamptz, description text?, discovered_at timestamptz?, name text, "
        "prompt_id text, sver_id text, template text?, updated_at timestamptz"
    ),
    "mcp.resources": _columns(
        "created_at timestamptz, description text?, discovered_at timestamptz?, mime_type text?, name text, "
        "resource_id text, sver_id text, updated_at timestamptz, uri text"
    ),
    "mcp.review_events": _columns(
        "action text, actor_id text, created_at timestamptz, event_id text, reason text?, subject_id text, "
        "subject_type text"
    ),
    "mcp.server_instances": _columns(
        "created_at timestamptz, deploy_kind text, desired_replicas integer, endpoint_json jsonb?, inst_id text, "
        "last_deployed_at timestamptz?, org_id text, region text?, runtime text?, status text, sver_id text"
    ),
    "mcp.server_tags": _columns("server_id text, tag_id text"),
    "mcp.server_transport_secrets": _columns("config_json jsonb, stra_id text"),
    "mcp.server_transports": _columns(
        "config_json jsonb, kind text, readiness_probe_json jsonb?, stra_id text, sver_id text"
    ),
    "mcp.server_versions": _columns(
        "capabilities_json jsonb, created_at timestamptz, listed boolean, manifest_hash text, "
        "mcp_spec_version text, prompts_list_changed boolean?, release_notes text?, "
        "resources_list_changed boolean?, resources_subscribe boolean?, server_id text, source_ref text?, "
        "status text, sver_id text, tools_list_changed boolean?, version text"
    ),
    "mcp.servers": _columns(
        "created_at timestamptz, display_name text, homepage_url text?, logo_url text?, long_description text?, "
        "publisher_org_id text, repo_url text?, search_text text?, search_tsv text?, server_id text, "
        "short_description text, slug text, visibility text"
    ),
    "mcp.tags": _columns("name text, slug text, tag_id text"),
    "mcp.tools": _columns(
        "active boolean, annotations_json jsonb?, created_at timestamptz, description text?, "
        "discovered_at timestamptz, display_title text?, input_schema_json jsonb, name text, "
        "output_schema_json jsonb?, sver_id text, title text?, tool_id text, traits_json jsonb, "
        "updated_at timestamptz"
    ),
    "mcp.user_server_configs": _columns(
        "config_json jsonb, created_at timestamptz, enabled boolean, inst_id text?, last_event_id text?, "
        "name text, negotiated_protocol_version text?, secrets_json jsonb, server_id text?, "
        "session_expires_at timestamptz?, session_id text?, updated_at timestamptz, usco_id text, user_id text"
    ),
    "app.errors": _columns(
        "clerk_id text?, created_at timestamptz, env text, error jsonb?, hash text, id integer, "
        "last_seen timestamptz, location text, message text, severity text, stack text?, total_count integer"
    ),
    "app.feedback": _columns(
        "clerk_id text?, content text, context jsonb?, created_at timestamptz?, feedback_id text, status text?"
    ),
    "app.gateway_settings": _columns(
        "clerk_id text, created_at timestamptz, enabled_models jsonb, gateway text, gateway_setting_id text, "
        "is_enabled boolean, updated_at timestamptz"
    ),
    "app.user_onboarding": _columns(
        "approval_rules jsonb, autonomy text, completed_at timestamptz?, created_at timestamptz, "
        "data_sources text[], experience text, industry text?, ip_address text?, locale text?, "
        "marketing_opt_in boolean, notify_channels text[], org_id text?, preferred_apps text[], "
        "primary_goal text?, privacy_accepted_at timestamptz?, role text?, status text, success_metric text?, "
        "team_size integer?, time_budget_min_per_week integer?, timezone text?, top_tasks text[], "
        "tos_accepted_at timestamptz?, updated_at timestamptz, user_id text"
    ),
    "app.user_profile": _columns(
        "about text?, clerk_id text, created_at timestamptz, goals text?, user_profile_id text"
    ),
    "iam.org_invites": _columns(
        "accepted_at timestamptz?, created_at timestamptz, email text, expires_at timestamptz, invite_id text, "
        "invited_by text?, org_id text, role text, token text"
    ),
    "iam.org_memberships": _columns("clerk_id text, created_at timestamptz?, org_id text, role text"),
    "iam.orgs": _columns("created_at timestamptz?, name text, org_id text"),
    "iam.users": _columns(
        "avatar_url text?, clerk_id text, created_at timestamptz, display_name text?, email text?, "
        "is_test_env boolean, metadata jsonb, status text, updated_at timestamptz"
    ),
    "lockbox.secret_keys": _columns(
        "clerk_id text, created_at timestamptz, created_by text?, environment text, expires_at timestamptz?, "
        "key_id text, last_used_at timestamptz?, name text, rate_limit_pm integer?, revoked_at timestamptz?, "
        "scopes jsonb, secret_hash text, secret_id text, updated_at timestamptz, updated_by text?"
    ),
    "lockbox.user_secrets": _columns(
        "auth_tag text, ciphertext text, clerk_id text, created_at timestamptz, created_by text?, "
        "deleted_at timestamptz?, is_current boolean, iv text, last_used_at timestamptz?, name text, "
        "namespace text, scope jsonb, updated_at timestamptz, updated_by text?, user_secret_id text, "
        "version integer"
    ),
}
# Columns of earlier schemas: dropped on 2025-10-07, or named by the older description alone.
OLD_COLUMNS: dict[str, dict[str, str]] = {
    "Workflow": _columns("name text?"),
    "WorkflowVersion": _columns("all_workflow_io jsonb?"),
    "WorkflowInvocation": _columns(
        "accuracy numeric?, fitness_score numeric?, novelty numeric?, metadata jsonb?, evaluation_inputs jsonb?, "
        "workflow_io jsonb?"
    ),
    "NodeInvocation": _columns("large_summary text?"),
}
METHODS = {
    "IPersistence": (
        "ensureWorkflowExists", "createWorkflowVersion", "workflowVersionExists", "getWorkflowVersion",
        "ensureWorkflowVersion", "updateWorkflowVersionWithIO", "loadWorkflowConfig", "loadWorkflowConfigForDisplay",
        "loadLatestWorkflowConfig", "updateWorkflowMemory", "createWorkflowInvocation", "updateWorkflowInvocation",
        "loadDatasetRecords", "cleanupStaleRecords",
    ),
    "INodePersistence": (
        "saveNodeVersion", "createNodeInvocationStart", "updateNodeInvocationEnd", "saveNodeInvocation",
        "retrieveNodeSummaries", "updateNodeMemory",
    ),
    "IMessagePersistence": ("save", "update"),
    "IEvolutionPersistence": (
        "createRun", "completeRun", "createGeneration", "completeGeneration", "generationExists",
        "getGenerationIdByNumber", "getLastCompletedGeneration",
    ),
    "Web": (
        "createWorkflow", "saveWorkflowVersion", "upsert-workflow", "deleteWorkflow", "updateWorkflowDescription",
        "deleteWorkflowInvocations", "updateWorkflowInvocationScores", "createDataSet", "createDatasetRecord",
        "getDataSet", "listDataSets", "getDatasetRecords",
    ),
}  # fmt: skip
# What else the descriptions name: it has its line on the page, and no method of the record answers to it.
BESIDE = (
    "createPersistence", "USE_MOCK_PERSISTENCE", "InMemoryPersistence", "SupabasePersistence", "persistWorkflow",
    "withTransaction", "SupabaseContextStore", "getSummary", "listWithInfo", "isCached", "PopulationStats",
    "CleanupStats", "FitnessMetric",
)  # fmt: skip
ERRORS = (
    "PersistenceError", "WorkflowNotFoundError", "NodeVersionMissingError", "DatasetRecordNotFoundError",
    "InvalidInputError", "WORKFLOW_OWNERSHIP_CONFLICT", "CONCURRENT_MODIFICATION",
)  # fmt: skip
