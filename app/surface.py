"""What the service offers: operations and their groups, what events are about, what readers wait for, what jobs do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial

import app.tables  # noqa: F401 - what backups and removals find in METADATA is every table
from app.artifacts import reference_store as artifact_references
from app.artifacts.reference_routes import routes as artifact_reference_routes
from app.artifacts.routes import routes as artifact_routes
from app.attachments.routes import routes as attachment_routes
from app.background.cascade import delete_workflow
from app.background.work import Kind
from app.backups import store as backups
from app.backups.exporting import Export
from app.backups.forgetting import forget
from app.backups.restore_routes import routes_of as restore_routes_of
from app.backups.restoring import Restore
from app.backups.routes import CONTENT_ERRORS, content_of
from app.backups.routes import routes as backup_routes
from app.backups.verifying import Verify
from app.blobs.blobs import Blobs
from app.bus.hints import Hints
from app.bus.watcher import Watched
from app.checkpoints.routes import routes as checkpoint_routes
from app.contexts.routes import routes as context_routes
from app.conversations import watching as conversations
from app.conversations.routes import routes as conversation_routes
from app.costs.routes import routes as cost_routes
from app.datasets import store as datasets
from app.datasets.evaluator_routes import routes as evaluator_routes
from app.datasets.jobs import delete_dataset
from app.datasets.record_routes import routes as dataset_record_routes
from app.datasets.routes import routes as dataset_routes
from app.db.database import Database
from app.deadletters.routes import routes_of as dead_letter_routes_of
from app.documents import collection_store as documents
from app.documents.collection_routes import routes as document_collection_routes
from app.documents.jobs import cut_documents
from app.documents.routes import routes as document_routes
from app.documents.schemas import HISTORY_MAX
from app.documents.store import SHOWN as SHOWN_DOCUMENTS
from app.embeddings.embedder import Embedder
from app.evaluations.routes import routes as evaluation_routes
from app.events import watching as events
from app.events.routes import routes_about
from app.events.store import Subject
from app.evolution.generation_routes import routes as generation_routes
from app.evolution.read_routes import routes as evolution_read_routes
from app.evolution.routes import routes as evolution_routes
from app.genealogy.routes import routes as genealogy_routes
from app.http.batch import routes as batch_routes
from app.http.endpoint import Endpoint
from app.http.health import routes as health_routes
from app.http.problem_pages import routes as problem_routes
from app.invocations.routes import routes as invocation_routes
from app.jobs.routes import routes as job_routes
from app.leases import watching as leases
from app.leases.routes import routes as lease_routes
from app.maintenance.routes import routes as maintenance_routes
from app.mcp.config_routes import routes as mcp_config_routes
from app.mcp.routes import routes as mcp_server_routes
from app.mcp.version_routes import routes as mcp_version_routes
from app.memory.embedding_store import REEMBED_KIND
from app.memory.item_routes import routes_of as memory_item_routes_of
from app.memory.item_schemas import ITEMS_MAX
from app.memory.partitions import DIMENSIONS_MAX
from app.memory.reembedding import Reembedding
from app.memory.search_routes import routes_of as memory_search_routes_of
from app.memory.search_schemas import TOP_K_MAX
from app.memory.space_routes import routes as memory_space_routes
from app.memory.space_store import SPACES_MAX
from app.messages.routes import routes as message_routes
from app.nodes.routes import routes as node_routes
from app.offboarding.routes import Exports
from app.offboarding.routes import routes_of as offboarding_routes_of
from app.retention.jobs import Retention
from app.retention.pin_routes import routes as pin_routes
from app.retention.routes import routes as retention_routes
from app.retention.store import RUN_KIND
from app.sessions.routes import routes as session_routes
from app.settings import Settings
from app.signing import signer_of
from app.stamps.routes import routes as format_stamp_routes
from app.submissions import watching as submissions
from app.submissions.join_routes import routes as submission_join_routes
from app.submissions.marker_routes import routes as attempt_marker_routes
from app.submissions.replaying import replay as replay_submissions
from app.submissions.routes import routes as submission_routes
from app.submissions.transition_routes import routes as submission_transition_routes
from app.tenants.routes import routes as tenant_routes
from app.traces.routes import routes as trace_routes
from app.versions.node_routes import routes as node_version_routes
from app.versions.routes import routes as version_routes
from app.webhooks.addresses import Addresses
from app.webhooks.delivery_routes import routes as delivery_routes
from app.webhooks.delivery_store import replay as replay_deliveries
from app.webhooks.routes import routes_of as webhook_routes_of
from app.webhooks.sealing import Seal
from app.workflows import store as workflows
from app.workflows.routes import routes as workflow_routes

# What events are about: where `?include=` finds the verbatim fields of a subject.
SUBJECTS = (
    Subject("workflow", "workflows", (), ("created", "updated", "deleted")),
    Subject("version", "versions", ("dsl",), ("created", "pruned", "restored", "deleted")),
    Subject("node_version", "node_versions", (), ("created",), parent="version_id"),
    Subject(
        "invocation", "invocations", ("input", "output", "fitness"),
        ("queued", "started", "updated", "cancel_requested", "resumed", "ended", "deleted"),
    ),
    Subject("node_invocation", "node_invocations", ("output",), ("started", "ended"), parent="invocation_id"),
    Subject("session", "sessions", (), ("started", "ended")),
    Subject("mcp_version", "mcp_versions", (), ("released", "yanked"), parent="server_id"),
    # Within its collection; a body that may still hold a secret reads as null.
    Subject("document", SHOWN_DOCUMENTS, ("body",), ("created", "updated", "deleted"), parent="collection"),
    Subject("dataset", "datasets", (), ("created", "deleted")),
    Subject("dataset_version", "dataset_versions", (), ("created",), parent="dataset_id"),
    Subject("evaluation", "evaluations", (), ("recorded",), parent="invocation_id"),
    Subject("evolution_run", "evolution_runs", (), ("started", "updated", "reopened", "ended", "deleted")),
    Subject("generation", "generations", (), ("started", "updated", "completed")),
    Subject("conversation", "conversation_streams", (), ("created", "deleted")),
    Subject(
        "submission", "submissions", ("input",),
        (
            "admitted", "ready", "claimed", "input_applied", "attempt_replaced", "recovery_requested",
            "abort_requested", "requeued", "joining", "joined", "reverted", "terminalizing", "settled", "dead",
            "deleted",
        ),
    ),
    Subject("backup", "backups", ("manifest",), ("completed",)),
    Subject("memory_space", "memory_spaces", (), ("created", "activated", "deleted"), key="name"),
    Subject("webhook", "webhooks", (), ("created", "updated", "enabled", "disabled", "secret_rotated", "deleted")),
)  # fmt: skip
# What readers wait for, by the kind of its key: the one statement that finds what moved, for all of them at once.
WATCHED: dict[str, Callable[[Database, Collection[Watched]], Awaitable[Collection[Watched]]]] = {
    conversations.KIND: conversations.moved,
    events.KIND: events.moved,
    submissions.KIND: submissions.moved,
    leases.KIND: leases.moved,
}
# How what was given up is tried again, by the source of its dead letter.
REPLAYERS = {"submission": replay_submissions, "webhook": replay_deliveries}
# What a job that a client asked for does, by kind, where it needs nothing but the database.
KINDS: dict[str, Kind] = {
    workflows.DELETE_KIND: delete_workflow,
    datasets.DELETE_KIND: delete_dataset,
    documents.CUT_KIND: cut_documents,
}
# What holds an artifact `a`: it is not collected while one of these is true.
HOLDERS = (
    artifact_references.HOLDER,
    "EXISTS (SELECT FROM contexts AS c WHERE c.tenant_id = a.tenant_id AND c.artifact_hash = a.hash)",
    backups.HOLDER,
)
# What each group of operations is about, in the order of the document.
TAGS = {
    "tenants": "Tenants, their API keys and their rate limits.",
    "offboardings": "Tenants that leave: how far that is, and the receipt.",
    "workflows": "What agents carry out; its content lies in versions.",
    "versions": "Immutable versions of a workflow, named by their content and ancestry.",
    "node versions": "The nodes of a version, in revisions, and what each remembers.",
    "genealogy": "Ancestors, descendants, and what two versions share and how they differ.",
    "invocations": "Runs of a version, from their start to their end.",
    "nodes": "Nodes of an invocation as they run, and the tools that they call.",
    "messages": "What the nodes of an invocation say to each other.",
    "datasets": "Records to run workflows on, in versions.",
    "evaluators": "What judges invocations.",
    "evaluations": "What evaluators said of an invocation.",
    "traces": "An invocation whole and in order, and what went wrong in it.",
    "costs": "Exact sums of money and tokens.",
    "maintenance": "The end of what gives no sign of life.",
    "retention": "What leaves by age, by which rules, and what is pinned.",
    "sessions": "What holds invocations together; a session expires by itself.",
    "checkpoints": "The state of an invocation, and resuming from it.",
    "contexts": "Bytes under a key of an invocation, with a summary and metadata: the working memory of its nodes.",
    "conversations": "Streams of records with one producer, read as pages, by long-polls, or as an event stream.",
    "evolution": "Runs of an evolution, their generations, and what is derived from them.",
    "mcp": "The registry of MCP servers, with versions, tools and configurations.",
    "attachments": "Immutable bytes under the path of a conversation.",
    "memory": "What agents remember: spaces of embeddings, documents and records, and the search for them.",
    "artifacts": "Immutable bytes named by their SHA-256, and the names by which invocations refer to them.",
    "documents": "JSON of any shape in collections, byte for byte, without what a collection says is secret.",
    "submissions": "The queue: work that is claimed under a lease, and settled under the attempt that claimed it.",
    "attempt markers": "Marks that an attempt was begun, kept apart from its submission.",
    "format stamps": "Which format a client's data has.",
    "leases": "Names that one holder has at a time, with a fencing token under which only that holder's writes happen.",
    "webhooks": "Subscriptions of endpoints to events, and the deliveries that come of them, with their attempts.",
    "dead letters": "Submissions and deliveries that were given up, to be replayed or cleared away.",
    "events": "Every change of a tenant's resources, in one order without gaps: as pages, by waiting, or as a stream.",
    "backups": "A tenant's whole state at one moment, in one file that says of itself whether it is whole.",
    "jobs": "Long work that a request began: its progress, its report, its end.",
    "batch": "Several operations in one transaction.",
    "operations": "What the service is, how it is, and what its problems mean.",
}


def kinds_of(
    settings: Settings, embedder: Embedder | None, blobs: Blobs, hints: Hints, removed: Callable[[str, int], None]
) -> dict[str, Kind]:
    """What every job does, by kind; `removed` is told of the rows that retention removes, by table."""
    signer = signer_of(settings.signing)
    return {
        **KINDS,
        RUN_KIND: Retention(settings.retention.batch_rows, removed, partial(forget, blobs)),
        REEMBED_KIND: Reembedding(embedder, settings.memory.reembed_batch),
        backups.CREATE_KIND: Export(settings.database, blobs, settings.backups.compression_level, signer),
        backups.VERIFY_KIND: Verify(blobs, settings.backups.line_bytes_max),
        backups.RESTORE_KIND: Restore(settings.database, settings.backups, settings.signing, blobs, hints),
    }


def limits_of(settings: Settings) -> dict[str, int]:
    """What is bounded beside requests, by the names that clients are told."""
    return {
        "memory_spaces": SPACES_MAX,
        "memory_dimensions": DIMENSIONS_MAX,
        "memory_items": ITEMS_MAX,
        "memory_content_bytes": settings.memory.content_bytes_max,
        "memory_top_k": TOP_K_MAX,
        "context_inline_bytes": settings.blobs.inline_bytes_max,
        "document_history": HISTORY_MAX,
        "backup_bytes": settings.backups.upload_bytes_max,
    }


def endpoints(settings: Settings) -> list[Endpoint]:
    """Every operation of the API, in the order in which it is documented."""
    webhooks = settings.webhooks
    keys = webhooks.encryption_keys
    seal = Seal(None if keys is None else keys.get_secret_value())
    addresses = Addresses(webhooks.allow_private)
    return [
        *tenant_routes,
        *offboarding_routes_of(settings.auth.cache_seconds, Exports(backups.create, content_of, CONTENT_ERRORS)),
        *workflow_routes,
        *version_routes,
        *node_version_routes,
        *genealogy_routes,
        *invocation_routes,
        *node_routes,
        *message_routes,
        *dataset_routes,
        *dataset_record_routes,
        *evaluator_routes,
        *evaluation_routes,
        *trace_routes,
        *cost_routes,
        *maintenance_routes,
        *retention_routes,
        *pin_routes,
        *session_routes,
        *checkpoint_routes,
        *context_routes,
        *conversation_routes,
        *evolution_routes,
        *generation_routes,
        *evolution_read_routes,
        *mcp_server_routes,
        *mcp_version_routes,
        *mcp_config_routes,
        *attachment_routes,
        *memory_space_routes,
        *memory_item_routes_of(settings.memory),
        *memory_search_routes_of(settings.memory),
        *artifact_routes,
        *artifact_reference_routes,
        *document_collection_routes,
        *document_routes,
        *submission_routes,
        *format_stamp_routes,
        *lease_routes,
        *webhook_routes_of(SUBJECTS, seal, addresses, webhooks.rotation_seconds),
        *delivery_routes,
        *dead_letter_routes_of(REPLAYERS),
        *submission_transition_routes,
        *submission_join_routes,
        *attempt_marker_routes,
        *batch_routes,
        *routes_about(SUBJECTS),
        *backup_routes,
        *restore_routes_of(settings.backups),
        *job_routes,
        *health_routes,
        *problem_routes,
    ]
