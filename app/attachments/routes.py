"""Attachments over HTTP."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from app.attachments import store
from app.attachments.errors import AttachmentConflict, AttachmentDamaged, AttachmentIntegrity, AttachmentNotFound
from app.attachments.schemas import (
    Attachment,
    AttachmentList,
    AttachmentPage,
    AttachmentQuery,
    Deleted,
    NewAttachment,
    PathQuery,
)
from app.db.database import Answer
from app.http import ranged
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.immutable import IMMUTABLE, is_held
from app.http.paging import page
from app.http.received import Received

routes = Routes("attachments")
# The reference of an attachment, each value percent-encoded UTF-8.
HEADERS = {
    "Attachment-Id": "The id, percent-encoded.",
    "Attachment-Mime-Type": "The type as it was given, percent-encoded.",
    "Attachment-Size": "How many bytes there are, whichever of them are sent.",
    "Attachment-Digest": "SHA-256 of all bytes, in hexadecimal digits.",
    "Attachment-Filename": "The name, percent-encoded; absent where none was given.",
    "Content-Disposition": "Always `attachment`.",
    "Accept-Ranges": "`bytes`.",
}


@routes.put(
    "/v1/attachments",
    scope="attachments:write",
    response_model=Attachment,
    status_code=201,
    transactional=True,
    errors=(AttachmentConflict, AttachmentIntegrity),
)
async def put_attachment(call: Call, query: NewAttachment, body: Received) -> Answer:
    """Store bytes under a path and an id, for good: the first write wins.

    The same bytes, type and conversation again answer 200 with the attachment as it is (the file name is not compared);
    others are a conflict. Bytes that have another size or digest than was said are refused, and nothing is stored.
    """
    given = query.model_dump()
    store.check(given, body)
    return await store.put(call.writer, call.tenant_id, given, body, _if_match(call))


@routes.get(
    "/v1/attachments",
    scope="attachments:read",
    response_class=Response,
    batchable=False,
    errors=(AttachmentNotFound, AttachmentDamaged, ranged.RangeNotSatisfiable),
    responses=ranged.documented(HEADERS),
    openapi_extra={"parameters": ranged.RANGE_HEADERS},
)
async def get_attachment(call: Call, query: AttachmentQuery) -> Answer | Response:
    """The bytes of an attachment, always as a download, with its reference in headers; one range of them if asked.

    They are checked before the first is sent, of large ones the first 64 MiB, and again as they are sent. Where they
    turn out damaged only then, the connection is cut: an answer that is as long as it said it would be is right.
    """
    with_bytes = call.method == "GET"
    stored = await store.find(call.reader, call.tenant_id, query.model_dump(), with_bytes=with_bytes)
    tag, size_bytes = store.tag_of(stored), stored["content_bytes"]
    if is_held(call, tag):
        return Answer(304, None, headers={"ETag": tag, **IMMUTABLE})
    span = ranged.asked(call, tag, size_bytes)
    start, end = (0, size_bytes) if span is None else (span.start, span.end)
    body = await store.opened(call.reader, call.tenant_id, stored, start, end) if with_bytes else b""
    headers = {
        **ranged.head_of(tag, stored["mime_type"], stored["filename"]),
        "Attachment-Id": quote(stored["id"], safe=""),
        "Attachment-Mime-Type": quote(stored["mime_type"], safe="/"),
        "Attachment-Size": str(size_bytes),
        "Attachment-Digest": stored["content_digest"].hex(),
    }
    if stored["filename"] is not None:
        headers["Attachment-Filename"] = quote(stored["filename"], safe="")
    return ranged.answered(call, headers, size_bytes, span, body)


@routes.delete("/v1/attachments", scope="attachments:write", response_model=Deleted, transactional=True)
async def delete_attachments(call: Call, query: PathQuery) -> Answer:
    """Delete every attachment under a path, and say how many there were."""
    deleted = await store.delete(call.writer, call.tenant_id, query.path)
    return Answer(200, b'{"deleted":%d}' % deleted)


@routes.get("/v1/attachments/references", scope="attachments:read", response_model=AttachmentPage)
async def list_attachments(call: Call, query: AttachmentList) -> Answer:
    """What attachments there are, without their bytes, in the order in which they were stored."""
    return await page(call, store.ATTACHMENTS, query)


def _if_match(call: Call) -> list[str] | None:
    """The ETags that `If-Match` accepts; None where the call has none. What is not conflicting fits `*`."""
    header = ",".join(call.headers.getlist("if-match"))
    if header.strip() == "*":
        return [f'"{call.query_params["digest"]}"']
    return [part.strip() for part in header.split(",")] if header else None
