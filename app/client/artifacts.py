"""Calls about artifacts: immutable bytes known by their SHA-256, and the names by which invocations refer to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.download import Wanted
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.record import Record
from app.client.streamed import RAW, Source, download, download_async, upload, upload_async
from app.client.transport import AsyncTransport, SyncTransport

M = TypeVar("M")


class Artifact(Record):
    """Bytes that never change; `hash` is their SHA-256 in hexadecimal digits."""

    hash: str
    size_bytes: int
    created_at: datetime


class ArtifactReference(Record):
    """A name under an invocation, and the artifact that it stands for."""

    invocation_id: str
    name: str
    hash: str
    size_bytes: int
    content_type: str | None
    metadata: dict[str, Any]
    node_id: str | None
    created_at: datetime
    updated_at: datetime


class ArtifactFilter(Paging, total=False):
    """Which artifacts to list."""

    created_after: Instant
    created_before: Instant


class ReferenceFields(TypedDict, total=False):
    """What an artifact is under a name; what is not given is empty."""

    content_type: str | None
    metadata: Mapping[str, Any]
    node_id: str | None


class ReferenceFilter(Paging, total=False):
    """Which artifacts of an invocation to list."""

    node_id: str
    hash: str


class Artifacts(Resource[M]):
    """Artifacts, known by their hash. What no name stands for is collected after a while, a day unless told otherwise.

    Bytes that are not what their hash says raise `ArtifactIntegrityError`.
    """

    @endpoint
    def store(self, content: bytes) -> Call[Artifact]:
        """Store bytes; what is there already is told again."""
        target = path("artifacts")
        return Call("POST", target, one(Artifact), body=content, repeatable=True, content_type=RAW)

    @endpoint
    def get(self, hash: str) -> Call[bytes]:
        """All bytes of an artifact."""
        return Call("GET", path("artifacts", hash), lambda reply: reply.body)

    @listing
    def list(self, **filters: Unpack[ArtifactFilter]) -> Call[Page[Artifact]]:
        """What artifacts there are, the last stored first."""
        return Call("GET", path("artifacts"), page_of(Artifact), query(filters))

    @endpoint
    def refer(
        self, invocation_id: str, name: str, hash: str, **fields: Unpack[ReferenceFields]
    ) -> Call[ArtifactReference]:
        """Have a name of an invocation stand for an artifact, instead of whatever it stood for."""
        target = path("invocations", invocation_id, "artifacts", name)
        return Call("PUT", target, one(ArtifactReference), body=dump({"hash": hash, **fields}))

    @endpoint
    def reference(self, invocation_id: str, name: str) -> Call[ArtifactReference]:
        """What a name of an invocation stands for."""
        return Call("GET", path("invocations", invocation_id, "artifacts", name), one(ArtifactReference))

    @listing
    def references(self, invocation_id: str, **filters: Unpack[ReferenceFilter]) -> Call[Page[ArtifactReference]]:
        """The artifacts of an invocation, by name."""
        target = path("invocations", invocation_id, "artifacts")
        return Call("GET", target, page_of(ArtifactReference), query(filters))

    @endpoint
    def release(self, invocation_id: str, name: str) -> Call[None]:
        """Take a name away; the artifact stays as long as something refers to it, and a while after."""
        return Call("DELETE", path("invocations", invocation_id, "artifacts", name), nothing)


class SyncArtifacts(Artifacts[SyncTransport]):
    """Artifacts, with bytes that are never in memory as a whole."""

    def upload(self, file: BinaryIO) -> Artifact:
        """Store what is in a file from where it stands: it is read once to be measured, and once to be sent."""
        source = Source.of(file)
        return upload(self._mode, _upload(source.digest), source)

    def download(self, hash: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download(self._mode, Call("GET", path("artifacts", hash), nothing), Wanted(start, end))


class AsyncArtifacts(Artifacts[AsyncTransport]):
    """Artifacts, with bytes that are never in memory as a whole."""

    async def upload(self, file: BinaryIO) -> Artifact:
        """Store what is in a file from where it stands: it is read once to be measured, and once to be sent."""
        source = await asyncio.to_thread(Source.of, file)
        content, retry = source.chunks_as_they_come, self._mode.manner.retry
        return await upload_async(self._mode, _upload(source.digest), content, source.size, retry)

    def download(self, hash: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download_async(self._mode, Call("GET", path("artifacts", hash), nothing), Wanted(start, end))


def _upload(digest: str) -> Call[Artifact]:
    asked = query({"hash": digest})
    return Call("POST", path("artifacts"), one(Artifact), asked, repeatable=True, content_type=RAW)
