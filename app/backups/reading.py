"""Reads the file of a backup from its first byte to its seal, in constant memory, and finds what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import msgspec
import zstandard

from app.backups.errors import BackupDamaged, BackupEncrypted, BackupNewer, Check
from app.backups.format import (
    FORMAT_VERSION,
    HEAD_PREFIX,
    MANIFEST_PREFIX,
    SEAL_BYTES,
    SEAL_HEAD,
    SECTION_PREFIX,
    WINDOW_LOG_MAX,
    Closing,
    Counting,
    Head,
    Manifest,
    Section,
    Signature,
    Tally,
    manifest_of,
)
from app.signing import holds

# Text is taken in pieces of this, and the file in such parts.
TEXT_BYTES, PART_BYTES = 1024 * 1024, 256 * 1024
# A line that is no row: the head and the manifest name a few dozen sections.
STRUCTURE_BYTES_MAX = 1024 * 1024
AGE = b"age-encryption.org/"

_Read = TypeVar("_Read")


class Source(Protocol):
    """Where the bytes of a file come from: up to `size` of them, or none at the end."""

    def read(self, size: int, /) -> bytes: ...


class Lines(msgspec.Struct, frozen=True):
    """Rows of a section as they stand in the file: whole lines with their line feeds; `first` counts from 1."""

    section: str
    first: int
    text: bytes


class Ended(msgspec.Struct, frozen=True):
    """The end of a file that is as it was written: its manifest, as values and as it stands, and who signed it."""

    manifest: Manifest
    text: bytes
    signature: Signature | None


Piece = Head | Section | Lines | Ended


class _OnlyVersion(msgspec.Struct):
    format_version: int


class _HeadLine(msgspec.Struct, forbid_unknown_fields=True):
    cairn_backup: msgspec.Raw


class _SectionLine(msgspec.Struct, forbid_unknown_fields=True):
    section: Section


class Reader:
    """One pass over a file. `size_bytes` and `digest` are those of what was read, once all of it was."""

    def __init__(self, source: Source, line_bytes_max: int) -> None:
        self._sealed, self._line_bytes_max = _Sealed(source), line_bytes_max
        self._head: Head | None = None
        self._counting: Counting | None = None
        self._tallies: list[Tally] = []
        self._closing: Closing | None = None

    @property
    def size_bytes(self) -> int:
        """How many bytes of the file were taken by now."""
        return self._sealed.taken_bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the whole file, once it was read."""
        return self._sealed.digest

    def pieces(self) -> Iterator[Piece]:
        """The head, each section and then its rows, and at last the end, which comes only where all of it is right.

        Raises `BackupDamaged` at the first byte that cannot be, `BackupNewer`, `BackupEncrypted`.
        """
        for text in self._whole_lines():
            yield from self._parted(text)
        self._sealed.check()
        yield self._ended()

    def _whole_lines(self) -> Iterator[bytes]:
        """The text in pieces that end with a line, each a little longer than `TEXT_BYTES` or one line long."""
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG_MAX)
        begun = bytearray()
        source: Any = self._sealed
        with decompressor.stream_reader(source, read_across_frames=True) as stream:
            while text := self._text(stream):
                end = text.rfind(b"\n") + 1
                longest = len(begun) + (text.find(b"\n") if end else len(text))
                if longest > self._line_bytes_max:
                    raise self._damaged("lines", f"A line is longer than {self._line_bytes_max} bytes.")
                if end:
                    yield bytes(begun) + text[:end]
                    begun.clear()
                begun += text[end:]
        if begun:
            raise self._damaged("frames", "The file ends within a line.")

    def _text(self, stream: zstandard.ZstdDecompressionReader) -> bytes:
        try:
            return stream.read(TEXT_BYTES)
        except zstandard.ZstdError as error:
            raise self._damaged("frames", f"The compressed bytes cannot be read: {error}.") from error

    def _parted(self, text: bytes) -> Iterator[Piece]:
        """The pieces of whole lines: rows in bulk, and what stands between them."""
        start = 0
        while start < len(text):
            if self._closing is not None:
                raise self._damaged("lines", "Something follows the manifest.")
            if self._head is None or text.startswith((SECTION_PREFIX, MANIFEST_PREFIX), start):
                end = text.index(b"\n", start) + 1
                if end - start > STRUCTURE_BYTES_MAX:
                    raise self._damaged("lines", "A line about the file itself is too long.")
                yield from self._about(text[start:end])
            else:
                ends = [text.find(b"\n" + prefix, start) for prefix in (SECTION_PREFIX, MANIFEST_PREFIX)]
                end = min((end + 1 for end in ends if end >= 0), default=len(text))
                yield self._rows(text[start:end])
            start = end

    def _about(self, line: bytes) -> Iterator[Piece]:
        if self._head is None:
            self._head = self._read_head(line)
            yield self._head
        elif line.startswith(SECTION_PREFIX):
            yield self._begun(self._read(line, _SectionLine).section)
        else:
            self._end_section()
            self._closing = self._read(line, Closing)

    def _read_head(self, line: bytes) -> Head:
        if not line.startswith(HEAD_PREFIX):
            raise self._damaged("lines", "The first line is not that of a backup.")
        head = self._read(line, _HeadLine).cairn_backup
        version = self._read(bytes(head), _OnlyVersion).format_version
        if version > FORMAT_VERSION:
            raise BackupNewer(
                f"The file has format {version}, and this release reads up to {FORMAT_VERSION}.",
                format_version=version,
                supported=FORMAT_VERSION,
            )
        read = self._read(bytes(head), Head)
        if version < 1 or len(set(read.sections)) != len(read.sections):
            raise self._damaged("lines", "The first line names a format or sections that cannot be.")
        return read

    def _begun(self, section: Section) -> Section:
        assert self._head is not None
        names, number = self._head.sections, len(self._tallies) + (self._counting is not None)
        if number == len(names) or section.name != names[number]:
            raise self._damaged("lines", f"A section {section.name[:100]!r} does not come at this place.")
        if not section.columns or len(set(section.columns)) != len(section.columns):
            raise self._damaged("lines", "The section names no column, or one twice.", section=section.name)
        self._end_section()
        self._counting = Counting(section.name)
        return section

    def _end_section(self) -> None:
        if self._counting is not None:
            self._tallies.append(self._counting.tally())
            self._counting = None

    def _rows(self, text: bytes) -> Lines:
        if self._counting is None:
            raise self._damaged("lines", "A row stands in no section.")
        lines = Lines(self._counting.name, self._counting.rows + 1, text)
        self._counting.take(text)
        return lines

    def _ended(self) -> Ended:
        if self._head is None or self._closing is None:
            raise self._damaged("manifest", "The file ends before its manifest.")
        text, signature = bytes(self._closing.manifest), self._closing.signature
        manifest = self._read(text, Manifest)
        found = manifest_of(self._head, self._tallies)
        if manifest.head() != self._head or [one.name for one in self._tallies] != self._head.sections:
            raise BackupDamaged("manifest", "The manifest and the first line do not name the same.")
        for told, counted in zip(manifest.sections, found.sections, strict=True):
            if (told.rows, told.bytes) != (counted.rows, counted.bytes):
                raise BackupDamaged("counts", f"The manifest tells of {told.rows} rows.", section=told.name)
            if told.sha256 != counted.sha256:
                raise BackupDamaged("digests", "The rows have another SHA-256 than the manifest.", section=told.name)
        if manifest != found:
            raise BackupDamaged("digests", "The totals of the manifest are not those of its sections.")
        if signature is not None and not holds(signature.public_key, signature.value, text):
            raise BackupDamaged("signature", "The signature is not that of the manifest under its key.")
        return Ended(manifest, text, signature)

    def _read(self, text: bytes, kind: type[_Read]) -> _Read:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._damaged("lines", f"A line about the file itself is not readable: {error}.") from error

    def _damaged(self, check: Check, detail: str, **facts: str | int) -> BackupDamaged:
        """Says where: in which section and behind which of its rows, and about which byte of the file."""
        if self._counting is not None:
            facts = {"section": self._counting.name, "rows": self._counting.rows, **facts}
        return BackupDamaged(check, detail, before_byte=self.size_bytes, **facts)


class _Sealed:
    """The bytes before the seal, which is held back; each is digested as it passes."""

    def __init__(self, source: Source) -> None:
        self.taken_bytes, self.digest = 0, b""
        self._source, self._sha256, self._held, self._over = source, hashlib.sha256(), bytearray(), False

    def read(self, size: int = -1) -> bytes:
        while len(self._held) <= SEAL_BYTES and not self._over:
            part = self._source.read(PART_BYTES)
            if not self.taken_bytes and part.startswith(AGE):
                raise BackupEncrypted("The file is encrypted; decrypt it first, with the identity of a recipient.")
            self.taken_bytes += len(part)
            self._held += part
            self._over = not part
        ready = len(self._held) - SEAL_BYTES
        if ready <= 0:
            return b""
        taken = bytes(self._held[: min(ready, size) if size >= 0 else ready])
        del self._held[: len(taken)]
        self._sha256.update(taken)
        return taken

    def check(self) -> None:
        """Raise `BackupDamaged` unless the file ends here, with the seal of all that was read."""
        if self.read(1) or bytes(self._held) != SEAL_HEAD + self._sha256.digest():
            raise BackupDamaged(
                "seal", "The file does not end with the seal of what comes before.", before_byte=self.taken_bytes
            )
        self._sha256.update(self._held)
        self.digest = self._sha256.digest()
