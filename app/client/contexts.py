"""Calls about contexts: bytes under a key of an invocation, with a summary and metadata."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, TypedDict, TypeVar, Unpack
from urllib.parse import unquote

from app.client.bodies import Instant, Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.download import Wanted
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import decode_exactly, dump, members
from app.client.record import Record
from app.client.reply import Reply
from app.client.streamed import RAW, Source, download, download_async, upload, upload_async
from app.client.transport import AsyncTransport, SyncTransport

M = TypeVar("M")
ONLY_NEW = (("If-None-Match", "*"),)


class Context(Record):
    """What is known of a context besides its bytes; `digest` is their SHA-256 in hexadecimal digits."""

    invocation_id: str
    scope: str
    node_id: str | None
    key: str
    summary: str
    summary_given: bool
    metadata: dict[str, Any]
    content_type: str
    size_bytes: int
    digest: str
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ContextFields(TypedDict, total=False):
    """What is kept beside the bytes; all of it is replaced together with them. Without a summary it is an excerpt."""

    node_id: str
    summary: str
    metadata: Mapping[str, Any]
    expires_at: Instant


class ContextFilter(Paging, total=False):
    """Which contexts to list; `node_id=""` for those of no node, `pattern` with `*` and `?`."""

    scope: str
    node_id: str
    pattern: str


class ClearFields(TypedDict, total=False):
    """Which contexts to remove; `node_id=None` for those of no node."""

    scope: str
    node_id: str | None
    pattern: str


class UploadFields(ContextFields, total=False):
    """The same, with the type of what is in a file, and whether only what is not there yet may be stored."""

    content_type: str
    only_new: bool


class Place(TypedDict, total=False):
    """A context of an invocation; as a target, what is left out is as at the source."""

    invocation_id: str
    scope: str
    node_id: str | None
    key: str


@dataclass(frozen=True)
class Known:
    """What the headers of a context tell; `etag` names this value of it, also in `using(if_match=…)`."""

    summary: str
    metadata: dict[str, Any]
    content_type: str
    size_bytes: int
    digest: str
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    etag: str


@dataclass(frozen=True)
class StoredContext:
    """A context with its bytes."""

    known: Known
    content: bytes


class Contexts(Resource[M]):
    """Contexts, known by their invocation, a scope, a key, and a node if they belong to one."""

    @endpoint
    def put(
        self,
        invocation_id: str,
        scope: str,
        key: str,
        content: bytes,
        *,
        content_type: str = RAW,
        only_new: bool = False,
        **fields: Unpack[ContextFields],
    ) -> Call[Context]:
        """Store bytes with what is kept beside them. With `only_new` what is there raises `PreconditionFailedError`."""
        return _put(invocation_id, scope, key, fields, content, content_type=content_type, only_new=only_new)

    @endpoint
    def get(self, invocation_id: str, scope: str, key: str, *, node_id: str | None = None) -> Call[StoredContext]:
        """A context with all its bytes."""
        asked = query({"node_id": node_id})
        return Call(
            "GET", _path(invocation_id, scope, key), lambda reply: StoredContext(_known(reply), reply.body), asked
        )

    @endpoint
    def head(self, invocation_id: str, scope: str, key: str, *, node_id: str | None = None) -> Call[Known]:
        """What is known of a context, without its bytes."""
        return Call("HEAD", _path(invocation_id, scope, key), _known, query({"node_id": node_id}))

    @endpoint
    def delete(self, invocation_id: str, scope: str, key: str, *, node_id: str | None = None) -> Call[None]:
        """Delete a context."""
        return Call("DELETE", _path(invocation_id, scope, key), nothing, query({"node_id": node_id}))

    @listing
    def list(self, invocation_id: str, **filters: Unpack[ContextFilter]) -> Call[Page[Context]]:
        """Contexts that meet every condition, by scope, node and key, without their bytes."""
        return Call("GET", path("invocations", invocation_id, "contexts"), page_of(Context), query(filters))

    @endpoint
    def copy(self, invocation_id: str, source: Place, target: Place, *, overwrite: bool = False) -> Call[Context]:
        """Copy a context, also to another invocation; a target that is taken raises `ConflictError`."""
        return _transfer("copy", invocation_id, source, target, overwrite=overwrite)

    @endpoint
    def move(self, invocation_id: str, source: Place, target: Place, *, overwrite: bool = False) -> Call[Context]:
        """Move a context, as `copy` does."""
        return _transfer("move", invocation_id, source, target, overwrite=overwrite)

    @endpoint
    def clear(self, invocation_id: str, **conditions: Unpack[ClearFields]) -> Call[int]:
        """Delete the contexts that meet every condition, without any all of the invocation; how many there were."""
        return Call("POST", path("invocations", invocation_id, "contexts", "clear"), _deleted, body=dump(conditions))


class SyncContexts(Contexts[SyncTransport]):
    """Contexts, with bytes that are never in memory as a whole."""

    def upload(
        self, invocation_id: str, scope: str, key: str, file: BinaryIO, **fields: Unpack[UploadFields]
    ) -> Context:
        """Store what is in a file from where it stands: it is read once to be measured, and once to be sent."""
        return upload(self._mode, _upload(invocation_id, scope, key, fields), Source.of(file))

    def download(
        self,
        invocation_id: str,
        scope: str,
        key: str,
        *,
        node_id: str | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came.

        Raises `AttachmentIntegrityError` where what is left is of another write than what came.
        """
        return download(self._mode, _download(invocation_id, scope, key, node_id), Wanted(start, end))


class AsyncContexts(Contexts[AsyncTransport]):
    """Contexts, with bytes that are never in memory as a whole."""

    async def upload(
        self, invocation_id: str, scope: str, key: str, file: BinaryIO, **fields: Unpack[UploadFields]
    ) -> Context:
        """Store what is in a file from where it stands: it is read once to be measured, and once to be sent."""
        source = await asyncio.to_thread(Source.of, file)
        call, retry = _upload(invocation_id, scope, key, fields), self._mode.manner.retry
        return await upload_async(self._mode, call, source.chunks_as_they_come, source.size, retry)

    def download(
        self,
        invocation_id: str,
        scope: str,
        key: str,
        *,
        node_id: str | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came.

        Raises `AttachmentIntegrityError` where what is left is of another write than what came.
        """
        return download_async(self._mode, _download(invocation_id, scope, key, node_id), Wanted(start, end))


def _path(invocation_id: str, scope: str, key: str) -> str:
    return path("invocations", invocation_id, "contexts", scope, key)


def _put(
    invocation_id: str,
    scope: str,
    key: str,
    fields: Mapping[str, Any],
    content: bytes | None,
    *,
    content_type: str = RAW,
    only_new: bool = False,
) -> Call[Context]:
    return Call(
        "PUT",
        _path(invocation_id, scope, key),
        one(Context),
        query(fields),
        content,
        content_type=content_type,
        headers=ONLY_NEW if only_new else (),
    )


def _upload(invocation_id: str, scope: str, key: str, fields: UploadFields) -> Call[Context]:
    asked = {name: value for name, value in fields.items() if name not in ("content_type", "only_new")}
    content_type, only_new = fields.get("content_type", RAW), fields.get("only_new", False)
    return _put(invocation_id, scope, key, asked, None, content_type=content_type, only_new=only_new)


def _download(invocation_id: str, scope: str, key: str, node_id: str | None) -> Call[None]:
    return Call("GET", _path(invocation_id, scope, key), nothing, query({"node_id": node_id}))


def _transfer(name: str, invocation_id: str, source: Place, target: Place, *, overwrite: bool) -> Call[Context]:
    body = dump({"source": source, "target": target, "overwrite": overwrite})
    return Call("POST", path("invocations", invocation_id, "contexts", name), one(Context), body=body)


def _known(reply: Reply) -> Known:
    headers = reply.headers
    expires_at = headers.get("context-expires-at")
    return Known(
        unquote(headers["context-summary"]),
        json.loads(unquote(headers["context-metadata"])),
        unquote(headers["context-content-type"]),
        int(headers["context-size"]),
        headers["context-digest"],
        None if expires_at is None else datetime.fromisoformat(expires_at),
        datetime.fromisoformat(headers["context-created-at"]),
        datetime.fromisoformat(headers["context-updated-at"]),
        headers["etag"],
    )


def _deleted(reply: Reply) -> int:
    return int(decode_exactly(members(reply.body)["deleted"]))
