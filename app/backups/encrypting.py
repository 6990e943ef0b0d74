"""Encrypts a file for those who have a key of age; the service itself cannot read it again."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from queue import SimpleQueue

import pyrage

from app.errors import invalid


def require(recipients: Sequence[str]) -> None:
    """Raise `InvalidInput` where one of them is no public key of age."""
    for place, recipient in enumerate(recipients):
        try:
            pyrage.x25519.Recipient.from_str(recipient)
        except pyrage.RecipientError as error:
            raise invalid(f"recipients/{place}", "must be a public key of age: age1…") from error


class Encrypted:
    """A file as it is for its recipients. After the last part, `size_bytes` and `digest` (SHA-256) are those of it.

    A thread encrypts: it asks for a part, gets it, and leaves behind what came of it.
    """

    def __init__(self, recipients: Sequence[str]) -> None:
        self.size_bytes, self.digest = 0, b""
        self._recipients = [pyrage.x25519.Recipient.from_str(recipient) for recipient in recipients]
        self._sha256 = hashlib.sha256()
        self._asked, self._given = SimpleQueue[None](), SimpleQueue[bytes]()
        self._held = memoryview(b"")
        self._made = deque[bytes]()
        self._ended = False

    async def parts(self, plain: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of the encrypted file; no more than one part and what came of it is held."""
        working = asyncio.ensure_future(asyncio.to_thread(self._work))
        try:
            async for part in plain:
                await asyncio.to_thread(self._asked.get)
                if self._ended:
                    break
                self._given.put(part)
                while self._made:
                    yield self._made.popleft()
        finally:
            # No more comes, for whatever reason: what the thread makes of it when we were cut off, nobody takes.
            self._given.put(b"")
            await asyncio.wait({working})
        await working
        self.digest = self._sha256.digest()
        while self._made:
            yield self._made.popleft()

    def _work(self) -> None:
        try:
            pyrage.encrypt_io(self, self, self._recipients)
        finally:
            self._ended = True
            self._asked.put(None)

    def read(self, size: int) -> bytes:
        """For the thread: up to so many bytes of the plain file; none at its end."""
        if not self._held:
            self._asked.put(None)
            self._held = memoryview(self._given.get())
        piece, self._held = self._held[:size], self._held[size:]
        return bytes(piece)

    def write(self, part: bytes) -> int:
        """For the thread: a piece of the encrypted file."""
        self._sha256.update(part)
        self.size_bytes += len(part)
        self._made.append(part)
        return len(part)

    def flush(self) -> None:
        """For the thread: nothing is held back."""
