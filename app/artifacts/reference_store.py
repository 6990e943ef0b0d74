"""References to artifacts in SQL."""

from __future__ import annotations

from typing import Any

from app.artifacts import store as artifacts
from app.artifacts.errors import ArtifactReferenceNotFound
from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.errors import changed
from app.invocations import store as invocations

REFERENCE = Shape(
    "invocation_id",
    "name",
    computed("hash", "encode({t}.hash, 'hex')"),
    computed(
        "size_bytes",
        "(SELECT a.size_bytes FROM artifacts AS a WHERE a.tenant_id = {t}.tenant_id AND a.hash = {t}.hash)",
    ),
    "content_type",
    "metadata",
    "node_id",
    instant("created_at"),
    instant("updated_at"),
)
REFERENCES = Listing(
    "artifact references",
    "artifact_references AS t",
    REFERENCE,
    sorts={"name": Sort("t.name", "text")},
    default=("name", "asc"),
    filters={
        "invocation_id": "t.invocation_id = :invocation_id",
        "node_id": "t.node_id = :node_id",
        "hash": "t.hash = decode(:hash, 'hex')",
    },
    ids=("t.name",),
)
# What collection asks of an artifact `a` before it takes it: whether a name of an invocation stands for it.
HOLDER = "EXISTS (SELECT FROM artifact_references AS r WHERE r.tenant_id = a.tenant_id AND r.hash = a.hash)"

_SQL = load(__file__, "reference_queries.sql", reference=REFERENCE.json("r"), touched=artifacts.TOUCHED)


async def put(
    writer: Writer,
    tenant_id: str,
    invocation_id: str,
    name: str,
    given: dict[str, Any],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> Answer:
    """Have a name stand for an artifact: 201, or 200 where it did for one before.

    Raises `InvocationNotFound`, `ArtifactNotFound`, `PreconditionFailed`.
    """
    key = {"tenant_id": tenant_id, "invocation_id": invocation_id, "name": name}
    digest = bytes.fromhex(given["hash"])

    async def why() -> None:
        stored = await writer.row(_SQL["get"], **key)
        if stored is None:
            await invocations.require(writer, tenant_id, invocation_id)
        if (stored is None and not may_create) or (
            stored is not None and if_match is not None and stored["revision"] not in if_match
        ):
            raise changed("reference", None if stored is None else stored["revision"])
        await artifacts.find(writer, tenant_id, digest)

    fields = {name: given.get(name) for name in ("content_type", "metadata", "node_id")}
    return await decided(
        writer, _SQL["put"], why, **key, **fields, hash=digest, if_match=if_match, may_create=may_create
    )


async def get(reader: Reader, tenant_id: str, invocation_id: str, name: str) -> Answer:
    """The reference. Raises `ArtifactReferenceNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, invocation_id=invocation_id, name=name)
    if row is None:
        raise ArtifactReferenceNotFound(
            "The invocation has no artifact under this name.", invocation_id=invocation_id, name=name
        )
    return Answer(200, row["body"], row["revision"])


async def delete(writer: Writer, tenant_id: str, invocation_id: str, name: str, if_match: list[int] | None) -> Answer:
    """Take the name away; the artifact stays for the grace period. Raises `ArtifactReferenceNotFound` and
    `PreconditionFailed`.
    """

    async def why() -> None:
        found = await get(writer, tenant_id, invocation_id, name)
        if if_match is not None and found.etag not in if_match:
            raise changed("reference", found.etag)

    return await decided(
        writer, _SQL["delete"], why, tenant_id=tenant_id, invocation_id=invocation_id, name=name, if_match=if_match
    )
