"""Checkpoints of conversations in SQL: one slot for each path, where the last write stays."""

from __future__ import annotations

from typing import Any

from app.conversations.errors import BadOffset, CheckpointNotFound
from app.conversations.offsets import SEQ_MAX, seq_of
from app.conversations.store import SQL
from app.db.database import Answer, Reader, Writer
from app.db.race import decided
from app.errors import changed


async def put(
    writer: Writer, tenant_id: str, path: str, given: dict[str, Any], if_match: list[int] | None, *, may_create: bool
) -> Answer:
    """Write the checkpoint: 201 for the first under the path, else 200. Raises `BadOffset`, `PreconditionFailed`."""
    seq = seq_of(given["offset"])
    if seq == SEQ_MAX:
        raise BadOffset("No batch can have this offset.")
    fields = {name: given[name] for name in ("incarnation", "format_version", "data")} | {"seq": seq}

    async def why() -> None:
        if not may_create:
            stored = await writer.row(SQL["get_checkpoint"], tenant_id=tenant_id, path=path)
            if stored is None or (if_match is not None and stored["revision"] not in if_match):
                raise changed("checkpoint", None if stored is None else stored["revision"])

    if may_create:
        return await decided(writer, SQL["put_checkpoint"], why, tenant_id=tenant_id, path=path, **fields)
    return await decided(
        writer, SQL["change_checkpoint"], why, tenant_id=tenant_id, path=path, if_match=if_match, **fields
    )


async def get(reader: Reader, tenant_id: str, path: str, at_or_before: str | None) -> Answer:
    """The checkpoint of a path. Raises `BadOffset`, and `CheckpointNotFound` also where it is of a later offset."""
    latest = None if at_or_before is None else seq_of(at_or_before)
    row = await reader.row(SQL["get_checkpoint"], tenant_id=tenant_id, path=path)
    if row is None:
        raise CheckpointNotFound("No checkpoint was written under this path.", path=path)
    if latest is not None and row["seq"] > latest:
        raise CheckpointNotFound("The checkpoint is of a later offset.", path=path)
    return Answer(200, row["body"], row["revision"])
