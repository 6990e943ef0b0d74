"""What of a section is otherwise than METADATA tells: its rows, its SQL, and what a restore does where one is there."""

from __future__ import annotations

from typing import Any

from app.backups.derived import field_of
from app.backups.section import Field, Parent
from app.db.columns import METADATA

# Clients may give numbers of their own: those beyond what the sequence ever comes to do not move it.
SEQ_MAX = 2**44

ATTACH = (
    "WITH numbered AS MATERIALIZED (SELECT s.line, r.*, stream_paths.number AS path_number,"
    " nextval(pg_get_serial_sequence('contents', 'number')) AS content_number FROM {rows}{resolves} WHERE {where}"
    "), content AS (INSERT INTO contents (tenant_id, number, size_bytes, digest, chunk_bytes, created_at)"
    " OVERRIDING SYSTEM VALUE SELECT $1, content_number, size_bytes, digest, chunk_bytes, created_at FROM numbered"
    ") INSERT INTO attachments (tenant_id, path_number, id, content_number, conversation_id, mime_type, filename,"
    " created_at) SELECT $1, path_number, id, content_number, conversation_id, mime_type, filename, created_at"
    " FROM numbered ORDER BY line"
)
ATTACHED = (
    " JOIN stream_paths ON stream_paths.tenant_id = t.tenant_id AND stream_paths.number = t.path_number"
    " JOIN contents ON contents.tenant_id = t.tenant_id AND contents.number = t.content_number"
)
CHUNKS = (
    " JOIN attachments ON attachments.tenant_id = t.tenant_id AND attachments.content_number = t.content_number"
    " JOIN stream_paths ON stream_paths.tenant_id = t.tenant_id AND stream_paths.number = attachments.path_number"
)
CHUNK_OF = (
    " JOIN stream_paths ON stream_paths.tenant_id = $1 AND stream_paths.path = r.path"
    " JOIN attachments ON attachments.tenant_id = $1 AND attachments.path_number = stream_paths.number"
    " AND attachments.id = r.id"
)
VECTOR_OF = (
    " JOIN memory_spaces ON memory_spaces.tenant_id = $1 AND memory_spaces.name = r.space"
    " JOIN memory_items ON memory_items.tenant_id = $1 AND memory_items.kind = r.kind AND memory_items.id = r.id"
)
INDEXED = (
    "CASE WHEN r.indexed THEN jsonb_build_object("
    "'in', jsonb_build_array(CAST($1 AS text), r.collection), 'body', r.body::jsonb) END"
)
MESSAGE_SEQ = (
    "SELECT setval('message_seq', m.top) FROM (SELECT max(seq) AS top FROM messages"
    f" WHERE tenant_id = $1 AND seq < {SEQ_MAX}) AS m, message_seq AS s WHERE m.top > s.last_value"
)
# Nobody is admitted or settled from here to the commit, so that sessions count right and have their heads.
SESSIONS = "SELECT FROM submission_sessions WHERE tenant_id = $1 ORDER BY number FOR UPDATE"
OPEN_COUNT = (
    "UPDATE submission_sessions AS n SET open_count = o.open_count FROM ("
    "SELECT n.number, count(s.id) FILTER (WHERE s.status <> 'settled') AS open_count FROM submission_sessions AS n"
    " LEFT JOIN submissions AS s ON s.tenant_id = n.tenant_id AND s.session_number = n.number"
    " WHERE n.tenant_id = $1 GROUP BY n.number) AS o"
    " WHERE n.tenant_id = $1 AND n.number = o.number AND n.open_count <> o.open_count"
)
# What has joined a submission that is settled here, or that was left out, waits by itself again.
ALONE_AGAIN = (
    "UPDATE submissions AS s SET status = 'queued', joined_into = NULL, input_applied_at = NULL,"
    " recovery_requested_at = NULL, revision = s.revision + 1, updated_at = clock_timestamp()"
    " WHERE s.tenant_id = $1 AND s.status IN ('joining', 'joined') AND NOT EXISTS (SELECT FROM submissions AS h"
    " WHERE h.tenant_id = $1 AND h.id = s.joined_into AND h.session_number = s.session_number"
    " AND h.status <> 'settled')"
)
# In a session whose head is settled here, or was left out, whoever comes after it would wait for ever.
HEADS = (
    "UPDATE submissions AS s SET is_head = true FROM (SELECT DISTINCT ON (u.session_number) u.id, bool_or(u.is_head)"
    " OVER (PARTITION BY u.session_number) AS led FROM submissions AS u"
    " WHERE u.tenant_id = $1 AND u.status <> 'settled' ORDER BY u.session_number, u.sequence) AS n"
    " WHERE s.tenant_id = $1 AND s.id = n.id AND NOT n.led"
)
SAME_VERSION = ("dsl_hash", "workflow_id", "operation", "parent1_id", "parent2_id")
BRINGS_BACK = (
    "UPDATE versions AS t SET dsl = r.dsl::json, pruned_at = NULL FROM {rows} WHERE t.tenant_id = $1 AND t.id = r.id"
    " AND {where}"
)
LIVE = "t.state IN ('live', 'marked')"
ENDED = "t.ended_at IS NOT NULL"
OF_ENDED = (
    "EXISTS (SELECT FROM webhook_deliveries AS d WHERE d.tenant_id = t.tenant_id AND d.id = t.delivery_id"
    " AND d.ended_at IS NOT NULL)"
)
# Bytes never change under their names, and are collected once nothing refers to them; tokens are this server's, and
# only grow.
STAYS = {"changes": False, "conflicts": False, "emptied": False}


def _part_of(section: str, *columns: str) -> Parent:
    return Parent(section, columns, columns)


def declared() -> dict[str, dict[str, Any]]:
    """Members of `Section` that are others than METADATA tells, by table; all domains have their tables by then."""
    return {
        "actions": {"order": ("t.invocation_id", "t.node_invocation_id", "t.position")},
        "artifacts": {
            "where": LIVE,
            "fills": (("state", "'live'"),),
            "companions": ("artifact_bytes",),
            "there": LIVE,
            **STAYS,
        },
        # An attachment and the content that is its own under one key; the bytes are a section of their own.
        "attachments": {
            "fields": (
                *(f for f in _fields("attachments") if f.name != "content_number"),
                Field("size_bytes", "bigint", "contents.size_bytes", "r.size_bytes", None),
                Field("digest", "bytea", "contents.digest", "r.digest", None),
                Field("chunk_bytes", "integer", "contents.chunk_bytes", "r.chunk_bytes", None),
            ),
            "joins": ATTACHED,
            "parents": (Parent("stream_paths", ("path",), ("path",)),),
            "uniques": (),
            "companions": ("attachment_chunks",),
            "statement": ATTACH,
            "also": ("contents",),
            # Bytes never change under their names.
            "changes": False,
        },
        "content_chunks": {
            "name": "attachment_chunks",
            "fields": (
                Field("path", 'text COLLATE "C"', "stream_paths.path", "stream_paths.number", None),
                Field("id", 'text COLLATE "C"', "attachments.id", "r.id", None),
                Field("position", "integer", "t.position", "r.position", "position"),
                Field("digest", "bytea", "t.digest", "r.digest", "digest"),
                # Base64 is a third shorter than hexadecimal; PostgreSQL breaks it into lines.
                Field("bytes", "text", "translate(encode(t.bytes, 'base64'), E'\\n', '')", "decode(r.bytes, 'base64')",
                      "bytes"),
            ),
            "key": ("path", "id", "position"),
            "order": ("stream_paths.path", "attachments.id", "t.position"),
            "joins": CHUNKS,
            "resolves": CHUNK_OF,
            "parents": (Parent("attachments", ("path", "id"), ("path", "id")),),
            "fills": (("content_number", "attachments.content_number"),),
            "part_of": _part_of("attachments", "path", "id"),
            "changes": False,
        },
        "conversation_batches": {"part_of": _part_of("conversation_streams", "path")},
        "conversation_checkpoints": {"part_of": _part_of("conversation_streams", "path")},
        "conversation_streams": {"companions": ("conversation_batches", "conversation_checkpoints")},
        # Whether its documents are still to be cut is this server's to know, and a restore finds it anew.
        "document_collections": {
            "outdone": "e.\"row\"::jsonb - 'uncut'::text = e.held::jsonb - 'uncut'::text",
            "holds_documents": True,
        },
        "document_revisions": {"part_of": _part_of("documents", "collection", "id"), "holds_documents": True},
        "documents": {
            "fields": (
                *(f for f in _fields("documents") if f.name not in ("indexed", "position")),
                # What is looked in names the tenant, and follows from the body, if `jsonb` can hold that.
                Field("indexed", "boolean", "t.indexed IS NOT NULL", INDEXED, "indexed"),
            ),
            "order": ("t.collection", "t.position"),
            "holds_documents": True,
        },
        # Positions are never given out twice.
        "event_heads": {"companions": ("events",), "emptied": False},
        "events": {"key": ("position",), "companions": ("event_heads",), "emptied": False},
        # They are given all at once.
        "generation_members": {"part_of": Parent("generations", ("generation_id",), ("id",))},
        "leases": STAYS,
        # A version that was released has the tools that it had then.
        "mcp_tools": {"part_of": Parent("mcp_versions", ("server_id", "version_id"), ("server_id", "id"))},
        "memory_items": {"companions": ("memory_vectors",)},
        # A space has its partition; and without any, items cannot be.
        "memory_spaces": {"companions": ("memory_items",), "changes": False},
        "memory_vectors": {
            "resolves": VECTOR_OF,
            "parents": (
                Parent("memory_items", ("kind", "id"), ("kind", "id")),
                Parent("memory_spaces", ("space",), ("name",)),
            ),
            "fills": (
                ("lexemes", "cairn_lexemes(memory_spaces.language, memory_items.content)"),
                *((name, f"memory_items.{name}") for name in ("metadata", "session_id", "invocation_id", "expires_at")),
            ),
            "part_of": _part_of("memory_items", "kind", "id"),
        },
        "messages": {"finish": (MESSAGE_SEQ,)},
        "submission_sessions": {"companions": ("submissions",)},
        "submissions": {"order": ("t.sequence",), "finish": (SESSIONS, OPEN_COUNT, ALONE_AGAIN, HEADS)},
        # One whose content had left by then takes nothing from the same one that still has it.
        "versions": {
            "outdone": "e.\"row\"->>'pruned_at' IS NOT NULL AND e.held->>'pruned_at' IS NULL"
            " AND e.\"row\"::jsonb - '{dsl,pruned_at}'::text[] = e.held::jsonb - '{dsl,pruned_at}'::text[]",
            # As when the same is posted again: its content and its descent say that it is the same.
            "back": " AND ".join(
                (
                    "e.\"row\"->>'pruned_at' IS NULL AND e.held->>'pruned_at' IS NOT NULL",
                    *(f"e.\"row\"->>'{name}' IS NOT DISTINCT FROM e.held->>'{name}'" for name in SAME_VERSION),
                )
            ),
            "brings_back": BRINGS_BACK,
        },
        "webhook_attempts": {"where": OF_ENDED},
        "webhooks": {
            "fills": (
                (
                    "after_position",
                    "COALESCE((SELECT h.position FROM event_heads AS h WHERE h.tenant_id = $1), 0)",
                ),
            ),
        },
        # What is under way is told by this server.
        "webhook_deliveries": {"where": ENDED, "holds_documents": True},
    }  # fmt: skip


def _fields(name: str) -> tuple[Field, ...]:
    table = METADATA.tables[name]
    return tuple(field_of(table, column) for column in table.columns if column.name != "tenant_id")
