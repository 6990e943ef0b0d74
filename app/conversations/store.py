"""Conversations in SQL. An append is one statement, which holds the attempt's ownership to its commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from app.conversations.errors import (
    AppendUnauthorized,
    ConversationConflict,
    ConversationNotFound,
    SequenceConflict,
    StaleProducer,
)
from app.conversations.offsets import offset_of, offset_sql
from app.conversations.records import Batch
from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import load

CONVERSATION = Shape(
    "path",
    computed(
        "identity",
        "(SELECT row_to_json(i) FROM (SELECT {t}.agent_name AS agent_name, {t}.instance_id AS instance_id) AS i)",
    ),
    "incarnation",
    computed("next_offset", offset_sql("({t}.next_seq - 1)")),
    "producer_id",
    "producer_epoch",
    "next_producer_sequence",
    instant("created_at"),
    instant("updated_at"),
)
CLAIM = Shape(
    "producer_id",
    "producer_epoch",
    "incarnation",
    "next_producer_sequence",
    computed("offset", offset_sql("({t}.next_seq - 1)")),
)
APPENDED = Shape(computed("offset", offset_sql("{t}.seq")))
CHECKPOINT = Shape(
    "path", computed("offset", offset_sql("{t}.seq")), "incarnation", "format_version", instant("updated_at")
)
WHOLE_CHECKPOINT = Shape(
    "path", computed("offset", offset_sql("{t}.seq")), "incarnation", "format_version", "data", instant("updated_at")
)

CONVERSATIONS = Listing(
    "conversations",
    "(SELECT s.*, p.path FROM conversation_streams AS s"
    " JOIN stream_paths AS p ON p.tenant_id = s.tenant_id AND p.number = s.number) AS t",
    CONVERSATION,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={"agent_name": "t.agent_name = :agent_name"},
    ids=("t.incarnation",),
)

SQL = load(
    __file__,
    conversation=CONVERSATION.json("c"),
    claim=CLAIM.json("c"),
    appended=APPENDED.json("b"),
    checkpoint=CHECKPOINT.json("c"),
    whole_checkpoint=WHOLE_CHECKPOINT.json("c"),
    # Not the data: the rows that a statement returns are kept until it ends.
    returned="k.tenant_id, k.number, k.seq, k.incarnation, k.format_version, k.revision, k.updated_at",
)


async def create(writer: Writer, tenant_id: str, path: str, agent_name: str, instance_id: str) -> Answer:
    """Create a conversation: 201, or 200 with it as it now is where it is of this agent and instance already.

    Raises `ConversationConflict` where the path belongs to another one.
    """

    async def why() -> None:
        stored = await writer.row(SQL["get"], tenant_id=tenant_id, path=path)
        if stored is not None and (stored["agent_name"], stored["instance_id"]) != (agent_name, instance_id):
            raise ConversationConflict(
                "The path belongs to a conversation of another agent or instance.",
                path=path,
                identity={"agent_name": stored["agent_name"], "instance_id": stored["instance_id"]},
            )

    return await decided(
        writer, SQL["create"], why,
        tenant_id=tenant_id, path=path, agent_name=agent_name, instance_id=instance_id, incarnation=new_id("inc"),
    )  # fmt: skip


async def acquire(writer: Writer, tenant_id: str, path: str, producer_id: str) -> Answer:
    """Take the conversation over; every earlier claim is dead from now on. Raises `ConversationNotFound`."""
    answer = await writer.answer(SQL["acquire"], tenant_id=tenant_id, path=path, producer_id=producer_id)
    if answer is None:
        raise not_found(path)
    return answer


async def append(writer: Writer, tenant_id: str, given: Mapping[str, Any], batch: Batch) -> Answer:
    """Append a batch under the next offset, or answer the offset of its exact retry.

    Raises `ConversationNotFound`, `StaleProducer`, `SequenceConflict`, `AppendUnauthorized`; nothing is stored then.
    """
    attempt = given.get("submission") or {}
    submission_id, attempt_id = attempt.get("submission_id"), attempt.get("attempt_id")
    joined_ids, strange = batch.named(submission_id, attempt_id)
    arguments = {
        "tenant_id": tenant_id,
        "path": given["path"],
        "producer_id": given["producer_id"],
        "producer_epoch": given["producer_epoch"],
        "incarnation": given["incarnation"],
        "producer_sequence": given["producer_sequence"],
        "submission_id": submission_id,
        "attempt_id": attempt_id,
        "joined_ids": joined_ids,
        "digest": batch.digest,
    }

    async def why() -> None:
        found = await writer.row(SQL["standing"], **arguments)
        if found is None:
            raise not_found(given["path"])
        _check_producer(found, given)
        if found["stored_seq"] is not None and found["is_same"]:
            return  # a twin was faster: the next try answers its offset
        _check_sequence(found, given)
        if strange is not None:
            _refuse_record(strange, owned=submission_id is not None)
        if submission_id is not None:
            _check_attempt(found, submission_id, attempt_id)

    return await decided(
        writer, SQL["append"], why, **arguments,
        permitted=strange is None, only_digest=batch.only_digest, records=batch.text, size_bytes=len(batch.text),
    )  # fmt: skip


def _refuse_record(record: int, *, owned: bool) -> NoReturn:
    if owned:
        raise AppendUnauthorized(
            f"Record {record} carries ids of another attempt than the one in `submission`.",
            reason="record_of_another_attempt", record=record,
        )  # fmt: skip
    raise AppendUnauthorized(
        f"Record {record} carries ids of an attempt; send that attempt as `submission`: {{submission_id, attempt_id}}.",
        reason="submission_required", record=record,
    )  # fmt: skip


def _check_producer(found: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    names = ("producer_id", "producer_epoch", "incarnation")
    if any(found[name] != given[name] for name in names):
        raise StaleProducer(
            "The conversation was acquired again since, or never by this producer; acquire it and read what is there.",
            **{name: found[name] for name in names},
        )


def _check_sequence(found: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    expected = found["next_producer_sequence"]
    if found["stored_seq"] is not None:
        raise SequenceConflict(
            "The number holds another batch, or one of another attempt.",
            expected=expected,
            offset=offset_of(found["stored_seq"]),
        )
    if given["producer_sequence"] != expected:
        raise SequenceConflict(f"The next number of this producer is {expected}.", expected=expected)


def _check_attempt(found: Mapping[str, Any], submission_id: str, attempt_id: str | None) -> None:
    facts = {"submission_id": submission_id, "attempt_id": found["current_attempt_id"]}
    if found["submission_status"] is None:
        raise AppendUnauthorized("There is no such submission.", reason="submission_not_found", **facts)
    facts["current_status"] = found["submission_status"]
    if found["submission_status"] not in ("running", "terminalizing"):
        raise AppendUnauthorized(
            f"The submission is {found['submission_status']}: no attempt owns it.", reason="not_owned", **facts
        )
    if found["current_attempt_id"] != attempt_id:
        raise AppendUnauthorized("Another attempt owns the submission.", reason="stale_attempt", **facts)
    identity = (found["submission_agent"], found["submission_instance_id"])
    if identity != (found["agent_name"], found["instance_id"]):
        raise AppendUnauthorized(
            "The submission is for another agent or instance than the conversation.", reason="other_identity", **facts
        )
    if found["not_joined"]:
        raise AppendUnauthorized(
            "Records name submissions that are not joined into this one.",
            reason="not_joined",
            submission_ids=found["not_joined"],
            **facts,
        )
    if found["submission_status"] == "terminalizing":
        raise AppendUnauthorized(
            "The submission is being settled: only the reserved record, alone and unchanged, can be appended.",
            reason="not_the_reserved_record",
            **facts,
        )


async def delete(writer: Writer, tenant_id: str, path: str) -> Answer:
    """Delete a conversation with its batches and its checkpoint. Raises `ConversationNotFound`."""
    answer = await writer.answer(SQL["delete"], tenant_id=tenant_id, path=path)
    if answer is None:
        raise not_found(path)
    return answer


async def get(reader: Reader, tenant_id: str, path: str) -> Answer:
    """The conversation, without its batches. Raises `ConversationNotFound`."""
    row = await reader.row(SQL["get"], tenant_id=tenant_id, path=path)
    if row is None:
        raise not_found(path)
    return Answer(200, row["body"])


def not_found(path: str) -> ConversationNotFound:
    """The refusal for a path without a conversation."""
    return ConversationNotFound("There is no conversation under this path.", path=path)
