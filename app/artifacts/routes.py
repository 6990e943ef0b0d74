"""Artifacts over HTTP."""

from __future__ import annotations

import re

from starlette.responses import Response

from app.artifacts import store
from app.artifacts.errors import ArtifactDamaged, ArtifactIntegrity, ArtifactNotFound
from app.artifacts.schemas import Artifact, ArtifactList, ArtifactPage, NewArtifact
from app.db.database import Answer
from app.http import ranged
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.idempotency import hold
from app.http.immutable import IMMUTABLE, is_held
from app.http.paging import page
from app.http.received import Received

routes = Routes("artifacts")
_HASH = re.compile("[0-9a-f]{64}").fullmatch
HEADERS = {"Content-Disposition": "Always `attachment`.", "Accept-Ranges": "`bytes`."}


@routes.post(
    "/v1/artifacts",
    scope="artifacts:write",
    response_model=Artifact,
    status_code=201,
    errors=(ArtifactIntegrity,),
)
async def store_artifact(call: Call, query: NewArtifact, body: Received) -> Answer:
    """Store bytes under their SHA-256, for good: 201, or 200 where this tenant has them already.

    Refer to them soon: what nothing refers to is collected after a grace period, a day unless the operator says
    otherwise. Sending the bytes again, or referring to them, begins it anew.
    """
    found = body.digest.hex()
    if query.hash not in (None, found):
        raise ArtifactIntegrity("The bytes have another SHA-256; nothing was stored.", expected=query.hash, found=found)
    database = call.ground.database
    if call.held:
        # Looked at before the bytes are written too: they may be many.
        await hold(call, database, call.held)
    return await store.put(database, call.writer, call.ground.blobs, call.tenant_id, body)


@routes.get(
    "/v1/artifacts/{hash}",
    scope="artifacts:read",
    response_class=Response,
    batchable=False,
    errors=(ArtifactNotFound, ArtifactDamaged, ranged.RangeNotSatisfiable),
    responses=ranged.documented(HEADERS),
    openapi_extra={"parameters": ranged.RANGE_HEADERS},
)
async def get_artifact(call: Call, hash: str) -> Answer | Response:
    """The bytes of an artifact, always as a download; one range of them if asked.

    Each part is checked before it is sent. Where the first is damaged that is the answer; where a later one is, the
    connection is cut: an answer that is as long as it said it would be is right.
    """
    if not _HASH(hash):
        raise store.not_found(hash)
    stored = await store.find(call.reader, call.tenant_id, bytes.fromhex(hash))
    tag, size_bytes = f'"{hash}"', stored["size_bytes"]
    if is_held(call, tag):
        return Answer(304, None, headers={"ETag": tag, **IMMUTABLE})
    span = ranged.asked(call, tag, size_bytes)
    start, end = (0, size_bytes) if span is None else (span.start, span.end)
    body = b"" if call.method == "HEAD" else await store.opened(
        call.reader, call.ground.blobs, call.tenant_id, stored, start, end
    )  # fmt: skip
    return ranged.answered(call, ranged.head_of(tag, "application/octet-stream", None), size_bytes, span, body)


@routes.get("/v1/artifacts", scope="artifacts:read", response_model=ArtifactPage)
async def list_artifacts(call: Call, query: ArtifactList) -> Answer:
    """What artifacts there are, without their bytes, the last stored first."""
    return await page(call, store.ARTIFACTS, query)
