"""A file that is encrypted with age, read as what it holds: nothing of that is written anywhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Protocol

import pyrage

from app.backups.reading import AGE


class Undecryptable(Exception):
    """The identities do not open the file, or it is not as it was encrypted."""


class _Identity(Protocol):
    """A secret key as age's library has it."""


def identities_of(file: Path) -> list[_Identity]:
    """The identities in a file as `age-keygen` makes it. Raises `Undecryptable`, and OSError."""
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    try:
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except pyrage.IdentityError as error:
        raise Undecryptable(f"{file} holds something else than identities of age (AGE-SECRET-KEY-1…).") from error
    if not found:
        raise Undecryptable(f"There is no identity of age in {file}.")
    return found


def is_encrypted(file: BinaryIO) -> bool:
    """Whether the file, which stands at its start, is one of age; it stands there again."""
    head = file.read(len(AGE))
    file.seek(0)
    return head == AGE


class Decrypted(io.RawIOBase):
    """The plain content, read from its start, as often as it is sought there. Reads raise `Undecryptable`.

    A thread decrypts, one piece each time one is asked for, so that no more than a piece is held.
    """

    def __init__(self, file: BinaryIO, identities: Sequence[_Identity]) -> None:
        self._file, self._identities = file, identities
        self._read_bytes, self._held, self._ended = 0, memoryview(b""), False
        self._asked, self._given = SimpleQueue[bool](), SimpleQueue[bytes | Exception]()
        self._begin()

    def readable(self) -> bool:
        """It is read."""
        return True

    def seekable(self) -> bool:
        """Its start can be sought."""
        return True

    def tell(self) -> int:
        """How much was read."""
        return self._read_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to the start again."""
        if offset or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only the start can be sought")
        self._drop()
        self._begin()
        return 0

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """The next bytes; 0 at the end."""
        if not self._held and not self._ended:
            self._asked.put(True)
            piece = self._given.get()
            if isinstance(piece, Exception):
                self._ended = True
                raise Undecryptable(f"The file cannot be decrypted: {piece}.") from piece
            self._held, self._ended = memoryview(piece), not piece
        size = min(len(buffer), len(self._held))
        buffer[:size] = self._held[:size]
        self._held = self._held[size:]
        self._read_bytes += size
        return size

    def close(self) -> None:
        """Let the thread go. The encrypted file stays open."""
        if not self.closed:
            self._drop()
        super().close()

    def _begin(self) -> None:
        self._file.seek(0)
        self._read_bytes, self._held, self._ended = 0, memoryview(b""), False
        self._asked, self._given = SimpleQueue[bool](), SimpleQueue[bytes | Exception]()
        sink = _Sink(self._asked, self._given)
        self._thread = Thread(target=sink.fill, args=(self._file, self._identities), daemon=True, name="decrypt")
        self._thread.start()

    def _drop(self) -> None:
        self._asked.put(False)
        self._thread.join()


class _Sink:
    """What the thread writes to: it waits there until a piece is asked for, or nobody wants any more."""

    def __init__(self, asked: SimpleQueue[bool], given: SimpleQueue[bytes | Exception]) -> None:
        self._asked, self._given, self._is_wanted = asked, given, True

    def fill(self, file: BinaryIO, identities: Sequence[_Identity]) -> None:
        """Decrypt all of it; at the end comes an empty piece, or the error."""
        end: bytes | Exception = b""
        try:
            pyrage.decrypt_io(file, self, identities)
        except (pyrage.DecryptError, OSError) as error:
            end = error
        if self._is_wanted and self._asked.get():
            self._given.put(end)

    def write(self, piece: bytes) -> int:
        """A piece of the plain content."""
        if piece:
            # The library writes on for a moment after it was refused.
            self._is_wanted = self._is_wanted and self._asked.get()
            if not self._is_wanted:
                raise OSError("nobody reads on")
            self._given.put(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Nothing is held back."""
