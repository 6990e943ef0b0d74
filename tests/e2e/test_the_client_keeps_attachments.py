"""The client's calls about attachments against the running service."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator

import pytest

from app.client import AsyncCairn, AttachmentIntegrityError, Cairn, ConflictError, NotFoundError
from tests.e2e.conftest import Served

HARD = "agents/ü ?#[/1"
BYTES = bytes(range(256)) * 5000


async def chunks() -> AsyncIterator[bytes]:
    for at in range(0, len(BYTES), 100_000):
        yield BYTES[at : at + 100_000]


async def test_attachments_in_both_modes(served: Served, cairn: Cairn) -> None:
    digest = hashlib.sha256(BYTES).hexdigest()
    made = cairn.attachments.put(HARD, "a/1", BYTES, conversation_id="c", mime_type="x/y", filename="ü;.txt")
    assert (made.path, made.size, made.digest, made.filename) == (HARD, len(BYTES), digest, "ü;.txt")
    file = io.BytesIO(BYTES)
    again = cairn.attachments.upload(HARD, "a/1", file, conversation_id="c", mime_type="x/y")
    assert again.reply is not None
    assert again.reply.status == 200
    stored = cairn.attachments.get(HARD, "a/1", "c")
    assert stored.content == BYTES
    assert stored.reference == cairn.attachments.head(HARD, "a/1", "c")
    assert (stored.reference.id, stored.reference.filename, stored.reference.size) == ("a/1", "ü;.txt", len(BYTES))
    assert b"".join(cairn.attachments.download(HARD, "a/1", "c", start=5, end=1_000_001)) == BYTES[5:1_000_001]
    async with AsyncCairn(served.url, key=served.key) as other:
        with pytest.raises(AttachmentIntegrityError):
            await other.attachments.upload(
                HARD, "a/2", chunks(), size=len(BYTES), digest="0" * 64, conversation_id="c", mime_type="x/y"
            )
        await other.attachments.upload(
            HARD, "a/2", chunks(), size=len(BYTES), digest=digest, conversation_id="c", mime_type="x/y"
        )
        file.seek(1)
        tail = await other.attachments.upload(HARD, "a/3", file, conversation_id="c", mime_type="x/y")
        assert tail.size == len(BYTES) - 1
        assert b"".join([piece async for piece in other.attachments.download(HARD, "a/3", "c")]) == BYTES[1:]
        with pytest.raises(ConflictError):
            await other.attachments.put(HARD, "a/2", b"", conversation_id="c", mime_type="x/y")
        with pytest.raises(NotFoundError):
            await anext(other.attachments.download(HARD, "a/2", "another"))
        empty = await other.attachments.put(HARD, "a/0", b"", conversation_id="d", mime_type="x/y")
        assert [piece async for piece in other.attachments.download(HARD, empty.id, "d")] == []
    assert [one.id for one in cairn.attachments.list(path=HARD, limit=1)] == ["a/1", "a/2", "a/3", "a/0"]
    assert [one.id for one in cairn.attachments.list(conversation_id="d")] == ["a/0"]
    assert cairn.attachments.delete(HARD) == 4
