"""Checkpoints in SQL."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from app.checkpoints.errors import CheckpointConflict, CheckpointNotFound
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, verbatim
from app.db.sql import Statement, load
from app.invocations import store as invocations
from app.invocations.tables import OPEN

# As many as a trace shows; how many there are is always said.
NODES_MAX = 10_000
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}").fullmatch

CHECKPOINT = Shape("invocation_id", "number", "node_id", verbatim("state"), instant("created_at"))
NODE = Shape("id", "node_id", "attempt_no", "status", instant("started_at"), instant("ended_at"))

CHECKPOINTS = Listing(
    "checkpoints",
    "checkpoints AS t",
    CHECKPOINT,
    sorts={"number": Sort("{t}.number", "bigint")},
    default=("number", "asc"),
    filters={"invocation_id": "t.invocation_id = :invocation_id", "node_id": "t.node_id = :node_id"},
    ids=("t.invocation_id",),
)


def _nodes(status: str) -> str:
    return (
        "COALESCE((SELECT json_agg(n.body ORDER BY n.place) FROM nodes AS n"
        f" WHERE n.status = '{status}' AND n.place <= {NODES_MAX}), '[]')"
    )


_SQL = load(
    __file__,
    checkpoint=CHECKPOINT.json("c"),
    # Not the state: the rows that a statement returns are kept until it ends.
    returned=", ".join(column.name for column in CHECKPOINT.columns if not column.verbatim),
    invocation=invocations.INVOCATION.json("i"),
    node=NODE.json("n"),
    **{status: _nodes(status) for status in ("completed", "running", "failed")},
)


async def record(writer: Writer, tenant_id: str, invocation_id: str, given: dict[str, Any]) -> Answer:
    """Record a checkpoint: 201, or 200 where the number holds the same node and state already.

    Without a number it gets the next under the invocation. Raises `InvocationNotFound`, `CheckpointConflict`.
    """
    number = given.get("number")
    digest = digest_of({name: value for name, value in given.items() if name != "number" and value is not None})
    key = {"tenant_id": tenant_id, "invocation_id": invocation_id, "number": number}

    async def why() -> None:
        stored = await writer.row(_SQL["standing"], **key)
        if stored is not None and stored["digest"] != digest:
            raise CheckpointConflict("The number holds another node or state.", number=number)

    fields = {"node_id": given.get("node_id"), "state": given.get("state")}
    return await decided(writer, _SQL["record"], why, digest=digest, **key, **fields)


@lru_cache(maxsize=4)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT {CHECKPOINT.json('c', include)} AS body FROM checkpoints AS c"
        " WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id AND c.number = CAST(:number AS bigint)"
    )


@lru_cache(maxsize=4)
def _latest(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT {CHECKPOINT.json('c', include)} AS body FROM checkpoints AS c"
        " WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id"
        " AND (CAST(:node_id AS text) IS NULL OR c.node_id = :node_id) ORDER BY c.number DESC LIMIT 1"
    )


async def get(reader: Reader, tenant_id: str, invocation_id: str, number: str, include: frozenset[str]) -> Answer:
    """The checkpoint of a number, as the path has it. Raises `InvocationNotFound`, `CheckpointNotFound`."""
    row = None
    if _NUMBER(number):
        row = await reader.row(_get(include), tenant_id=tenant_id, invocation_id=invocation_id, number=int(number))
    if row is None:
        await invocations.require(reader, tenant_id, invocation_id)
        raise CheckpointNotFound("The invocation has no checkpoint of this number.", number=number)
    return Answer(200, row["body"])


async def latest(
    reader: Reader, tenant_id: str, invocation_id: str, node_id: str | None, include: frozenset[str]
) -> Answer:
    """The checkpoint with the greatest number, of one node if told so.

    Raises `InvocationNotFound`, and `CheckpointNotFound` where there is none yet.
    """
    row = await reader.row(_latest(include), tenant_id=tenant_id, invocation_id=invocation_id, node_id=node_id)
    if row is None:
        await invocations.require(reader, tenant_id, invocation_id)
        raise CheckpointNotFound("The invocation has no such checkpoint yet.")
    return Answer(200, row["body"])


async def resume(writer: Writer, tenant_id: str, invocation_id: str, if_match: list[int] | None) -> Answer:
    """What is done of an open invocation, which is running from now on; its sign of life is now.

    Raises `InvocationNotFound`, `InvocationEnded`, `PreconditionFailed`.
    """

    async def why() -> None:
        standing = await invocations.standing_of(writer, tenant_id, invocation_id)
        if standing["status"] not in OPEN:
            raise invocations.ended(standing)
        refusal = invocations.unless_current(standing, if_match)
        if refusal is not None:
            raise refusal

    return await decided(
        writer, _SQL["resume"], why, tenant_id=tenant_id, invocation_id=invocation_id, if_match=if_match
    )
