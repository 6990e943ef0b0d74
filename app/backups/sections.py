"""Which sections a backup has: one for each table with rows of tenants, but for what is named here with the reason.

A new table is a section by itself, and a new column a member of its rows; what is to be otherwise is in `declared`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter

from app.backups.declared import declared
from app.backups.derived import derived
from app.backups.section import Field, Parent, Section
from app.db.columns import METADATA

# Tables that are in no section.
LEFT_OUT = {
    "api_keys": "Credentials never travel.",
    "backups": "They name files of this server.",
    "idempotency_keys": "They answer retries of requests to this server, for a day.",
    "jobs": "They are work of this server.",
    "offboardings": "They are the operator's, not the tenant's.",
    "outbox": "What has no position yet is told by this server.",
    "schema_decisions": "They belong to the schema.",
    "tenants": "The tenant that is restored into keeps its own row.",
    "webhook_heads": "A restore sets it, so that no webhook is told of what was restored.",
}
_AGAIN = "It only gives an order, and is given anew in the order of the lines."
_NUMBER = "The natural key stands in the file instead of the number."
_COPY = "It is a copy of what the item says."
_OBJECT = "It says how the object store of this server stands."
# Columns that are in no section, besides `tenant_id`, generated ones, and those of tables that are left out.
LEFT_OUT_COLUMNS = {
    ("actions", "position"): _AGAIN,
    ("artifacts", "changed_at"): _OBJECT,
    ("artifacts", "generation"): _OBJECT,
    ("artifacts", "state"): _OBJECT,
    ("artifacts", "touched_at"): _OBJECT,
    ("attachments", "content_number"): "The content is part of its attachment.",
    ("content_chunks", "content_number"): "The attachment is named instead.",
    ("contents", "created_at"): "It is that of the attachment.",
    ("contents", "number"): "The content is part of its attachment.",
    ("documents", "position"): _AGAIN,
    ("memory_spaces", "number"): _NUMBER,
    ("memory_spaces", "reindex_requested_at"): "The index is built where it is restored.",
    ("memory_vectors", "expires_at"): _COPY,
    ("memory_vectors", "invocation_id"): _COPY,
    ("memory_vectors", "lexemes"): "They are made of the item's content, in the language of the space.",
    ("memory_vectors", "metadata"): _COPY,
    ("memory_vectors", "session_id"): _COPY,
    ("stream_paths", "number"): _NUMBER,
    ("submission_sessions", "number"): _NUMBER,
    ("submission_sessions", "open_count"): "It counts the submissions that are not settled.",
    ("submissions", "sequence"): _AGAIN,
    ("webhooks", "after_position"): "A restored webhook is told of what happens from then on.",
}

# The bytes of artifacts, part by part: from the object store, not from a table.
ARTIFACT_BYTES = Section(
    name="artifact_bytes",
    table=None,
    fields=(
        Field("hash", "bytea", "", "", None),
        Field("position", "integer", "", "", None),
        Field("bytes", "text", "", "", None),
    ),
    key=("hash", "position"),
    parents=(Parent("artifacts", ("hash",), ("hash",)),),
)


@cache
def sections() -> tuple[Section, ...]:
    """Every section, each after those that its rows refer to, or are part of; all domains have their tables by then."""
    told, left = declared(), {*LEFT_OUT, "contents"}
    found = {
        section.name: section
        for name, table in sorted(METADATA.tables.items())
        if name not in left
        for section in [derived(table, _left_out(name), **told.get(name, {}))]
    }
    ways = {
        name: [p.section for p in section.parents if p.section != name and not _is_late(section, p)]
        + ([section.part_of.section] if section.part_of else [])
        for name, section in found.items()
    }
    return (*(found[name] for name in TopologicalSorter(ways).static_order()), ARTIFACT_BYTES)


def with_what_they_need(names: Iterable[str]) -> tuple[Section, ...]:
    """The sections of these names, with what their rows refer to, and without which they say less than they seem to."""
    known = {section.name: section for section in sections()}
    wanted, met = list(names), set[str]()
    while wanted:
        name = wanted.pop()
        if name not in met:
            met.add(name)
            wanted += [parent.section for parent in known[name].parents] + list(known[name].companions)
    return tuple(section for section in sections() if section.name in met)


def _left_out(name: str) -> set[str]:
    return {column for table, column in LEFT_OUT_COLUMNS if table == name}


def _is_late(section: Section, parent: Parent) -> bool:
    return any(field.late for field in section.fields if field.name in parent.columns)
