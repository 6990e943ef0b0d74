"""Messages in SQL. Recording is the hottest write of all: one statement, one round trip, for one message or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import ids_of
from app.db.integrity import IdsTaken
from app.db.page import Listing, Sort
from app.db.shape import Shape, instant, items, only, verbatim
from app.db.sql import Statement, load
from app.errors import changed
from app.messages.errors import MessageConflict, MessageNotFound

COLUMNS = {
    "seq": "seqs",
    "from_node_id": "from_node_ids",
    "to_node_id": "to_node_ids",
    "origin_node_invocation_id": "origins",
    "target_node_invocation_id": "targets",
    "role": "roles",
    "payload": "payloads",
}

MESSAGE = Shape(
    "id",
    "invocation_id",
    "seq",
    "from_node_id",
    "to_node_id",
    "origin_node_invocation_id",
    "target_node_invocation_id",
    "role",
    verbatim("payload"),
    instant("created_at"),
)

MESSAGES = Listing(
    "messages",
    "messages AS t",
    MESSAGE,
    sorts={"seq": Sort("{t}.seq", "bigint")},
    default=("seq", "asc"),
    filters={
        "invocation_id": "t.invocation_id = :invocation_id",
        "role": "t.role = ANY (:role)",
        "node_id": "(t.from_node_id = ANY (:node_id) OR t.to_node_id = ANY (:node_id))",
        "origin": "t.origin_node_invocation_id = ANY (:origin)",
        "target": "t.target_node_invocation_id = ANY (:target)",
        "after_seq": "t.seq > :after_seq",
    },
)

_MESSAGE = MESSAGE.json("m")
# Not the payload: the rows that a statement returns are kept until it ends.
_SHOWN = ", ".join(f"m.{column.name}" for column in MESSAGE.columns if not column.verbatim)
_ONE = load(__file__, message=_MESSAGE, shown=_SHOWN, etag="min(m.revision)", body=only(_MESSAGE))
_MANY = load(__file__, message=_MESSAGE, shown=_SHOWN, etag="CAST(NULL AS bigint)", body=items(_MESSAGE, "place"))


async def record(
    writer: Writer,
    tenant_id: str,
    invocation_id: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    single: bool = False,
) -> Answer:
    """Record messages, all or none: 201 if any is new, else 200, with each as it now is, in the order given.

    `single` answers the one message itself. Raises `InvocationNotFound`, `MessageConflict` (nothing is stored),
    `InvalidInput` where an id comes twice.
    """
    ids = ids_of(messages, "msg")
    statements = _ONE if single else _MANY
    try:
        answer = await writer.answer(
            statements["record"],
            statements["record_new"],
            tenant_id=tenant_id,
            invocation_id=invocation_id,
            ids=ids,
            digests=[
                digest_of(message if message.get("id") else {**message, "id": message_id})
                for message_id, message in zip(ids, messages, strict=True)
            ],
            **{plural: [message.get(name) for message in messages] for name, plural in COLUMNS.items()},
        )
    except IdsTaken as taken:
        raise MessageConflict("Messages with these ids were created with other fields.", ids=taken.ids) from taken
    assert answer is not None  # an aggregate without GROUP BY has a row, or raises
    return answer


async def patch(
    writer: Writer, tenant_id: str, invocation_id: str, message_id: str, target: str | None, if_match: list[int] | None
) -> Answer:
    """Say which node invocation read the message. Raises `MessageNotFound`, `PreconditionFailed`."""
    answer = await writer.answer(
        _ONE["patch"], tenant_id=tenant_id, invocation_id=invocation_id, id=message_id, target=target, if_match=if_match
    )
    if answer is None:
        current = await get(writer, tenant_id, invocation_id, message_id)
        raise changed("message", current.etag)
    return answer


@lru_cache(maxsize=4)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT m.revision, {MESSAGE.json('m', include)} AS body FROM messages AS m"
        " WHERE m.tenant_id = :tenant_id AND m.invocation_id = :invocation_id AND m.id = :id"
    )


async def get(
    reader: Reader, tenant_id: str, invocation_id: str, message_id: str, include: frozenset[str] = frozenset()
) -> Answer:
    """The message. Raises `MessageNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, invocation_id=invocation_id, id=message_id)
    if row is None:
        raise MessageNotFound("There is no such message in this invocation.", id=message_id)
    return Answer(200, row["body"], row["revision"])
