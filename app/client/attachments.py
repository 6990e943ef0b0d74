"""Calls about attachments: bytes that a conversation's records refer to, whole or streamed, in both directions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Required, TypedDict, TypeVar, Unpack
from urllib.parse import unquote

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.conversation_models import Attachment
from app.client.download import Wanted
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import decode_exactly, members
from app.client.reply import Reply
from app.client.streamed import RAW, Source, download, download_async, upload, upload_async
from app.client.transport import AsyncTransport, SyncTransport

M = TypeVar("M")


class AttachmentFields(TypedDict, total=False):
    """What is said of bytes besides their size and digest; `filename` is what a download is called."""

    conversation_id: Required[str]
    mime_type: Required[str]
    filename: str | None


class AttachmentFilter(Paging, total=False):
    """Which attachments to list."""

    path: str
    conversation_id: str
    digest: str


@dataclass(frozen=True)
class Reference:
    """What an attachment's bytes are: `size` of them in all, `digest` is their SHA-256 in hexadecimal digits."""

    id: str
    mime_type: str
    size: int
    digest: str
    filename: str | None


@dataclass(frozen=True)
class StoredAttachment:
    """An attachment with its bytes."""

    reference: Reference
    content: bytes


class Attachments(Resource[M]):
    """Attachments, known by a path, an id, and the conversation they belong to. The first write wins.

    Bytes that are not what was said of them raise `AttachmentIntegrityError`, other bytes under the same id
    `ConflictError`.
    """

    @endpoint
    def put(
        self, stream: str, attachment_id: str, content: bytes, **fields: Unpack[AttachmentFields]
    ) -> Call[Attachment]:
        """Store bytes for good; the same again changes nothing."""
        return _put(stream, attachment_id, len(content), hashlib.sha256(content).hexdigest(), fields, content)

    @endpoint
    def get(self, stream: str, attachment_id: str, conversation_id: str) -> Call[StoredAttachment]:
        """An attachment with all its bytes."""
        asked = _asked(stream, attachment_id, conversation_id)
        return Call("GET", path("attachments"), lambda reply: StoredAttachment(_reference(reply), reply.body), asked)

    @endpoint
    def head(self, stream: str, attachment_id: str, conversation_id: str) -> Call[Reference]:
        """What an attachment is, without its bytes."""
        return Call("HEAD", path("attachments"), _reference, _asked(stream, attachment_id, conversation_id))

    @listing
    def list(self, **filters: Unpack[AttachmentFilter]) -> Call[Page[Attachment]]:
        """Attachments that meet every condition, without their bytes."""
        return Call("GET", path("attachments", "references"), page_of(Attachment), query(filters))

    @endpoint
    def delete(self, stream: str) -> Call[int]:
        """Delete every attachment under a path; how many there were."""
        return Call("DELETE", path("attachments"), _deleted, query({"path": stream}))


class SyncAttachments(Attachments[SyncTransport]):
    """Attachments, with bytes that are never in memory as a whole."""

    def upload(self, stream: str, attachment_id: str, file: BinaryIO, **fields: Unpack[AttachmentFields]) -> Attachment:
        """Store what is in a file from where it stands: it is read once to be measured, and once to be sent."""
        source = Source.of(file)
        return upload(self._mode, _put(stream, attachment_id, source.size, source.digest, fields), source)

    def download(
        self, stream: str, attachment_id: str, conversation_id: str, *, start: int = 0, end: int | None = None
    ) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came.

        Raises `AttachmentIntegrityError` where what is left is no longer of the bytes that the first pieces were of.
        """
        call = Call("GET", path("attachments"), nothing, _asked(stream, attachment_id, conversation_id))
        return download(self._mode, call, Wanted(start, end))


class AsyncAttachments(Attachments[AsyncTransport]):
    """Attachments, with bytes that are never in memory as a whole."""

    async def upload(
        self,
        stream: str,
        attachment_id: str,
        file: BinaryIO | AsyncIterable[bytes],
        *,
        size: int | None = None,
        digest: str | None = None,
        **fields: Unpack[AttachmentFields],
    ) -> Attachment:
        """Store what is in a file from where it stands, which is read once to be measured and once to be sent.

        An iterator can only be read once: give its `size` and `digest`, and what breaks is not tried again.
        """
        retry = self._mode.manner.retry
        if isinstance(file, AsyncIterable):
            if size is None or digest is None:
                raise ValueError("bytes that can only be read once need their size and digest")
            content, retry = _same(file), replace(retry, attempt_max=1)
        else:
            source = await asyncio.to_thread(Source.of, file)
            size, digest, content = source.size, source.digest, source.chunks_as_they_come
        call = _put(stream, attachment_id, size, digest, fields)
        return await upload_async(self._mode, call, content, size, retry)

    def download(
        self, stream: str, attachment_id: str, conversation_id: str, *, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came.

        Raises `AttachmentIntegrityError` where what is left is no longer of the bytes that the first pieces were of.
        """
        call = Call("GET", path("attachments"), nothing, _asked(stream, attachment_id, conversation_id))
        return download_async(self._mode, call, Wanted(start, end))


def _put(
    stream: str, attachment_id: str, size: int, digest: str, fields: AttachmentFields, content: bytes | None = None
) -> Call[Attachment]:
    known = {"path": stream, "id": attachment_id, "size": size, "digest": digest}
    asked = query({**known, **fields})
    return Call("PUT", path("attachments"), one(Attachment), asked, content, repeatable=True, content_type=RAW)


def _asked(stream: str, attachment_id: str, conversation_id: str) -> tuple[tuple[str, str], ...]:
    return query({"path": stream, "id": attachment_id, "conversation_id": conversation_id})


def _same(chunks: AsyncIterable[bytes]) -> Callable[[], AsyncIterable[bytes]]:
    return lambda: chunks


def _reference(reply: Reply) -> Reference:
    headers = reply.headers
    filename = headers.get("attachment-filename")
    return Reference(
        unquote(headers["attachment-id"]),
        unquote(headers["attachment-mime-type"]),
        int(headers["attachment-size"]),
        headers["attachment-digest"],
        None if filename is None else unquote(filename),
    )


def _deleted(reply: Reply) -> int:
    return int(decode_exactly(members(reply.body)["deleted"]))
