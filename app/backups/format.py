"""The file of a backup, format 1: zstd NDJSON in sections, a signed manifest as last line, a seal as last frame.

The seal is a skippable frame of zstd with the SHA-256 of every byte before it, so one byte that is not as it was
written is found, wherever it is, and so is a cut. What is read here is not trusted: each line, window and number is
bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import zstandard

from app.signing import Signer

MEDIA_TYPE = "application/x-ndjson+zstd"
FORMAT_VERSION = 1
# Readers of a file need so much memory for what comes before, at most.
WINDOW_LOG_MAX = 23
# Text in a frame, about: a reader's progress has steps of this, and `zstd -d` too.
FRAME_BYTES = 64 * 1024 * 1024
SEAL_HEAD = bytes.fromhex("5d2a4d18") + (40).to_bytes(4, "little") + b"CAIRNSUM"
SEAL_BYTES = len(SEAL_HEAD) + 32
# How the lines begin that are not rows; no row does, for no table has such a column first.
HEAD_PREFIX, SECTION_PREFIX, MANIFEST_PREFIX = b'{"cairn_backup":', b'{"section":', b'{"manifest":'


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says of itself in its first line; `sections` are their names in order."""

    format_version: int
    schema_revision: str
    tenant: str
    backup_id: str
    snapshot_at: str
    artifacts: Literal["bytes", "references"]
    sections: list[str]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a section begins: its name, and the columns that its rows have."""

    name: str
    columns: list[str]


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section in the manifest: its rows, and the bytes and SHA-256 of their lines with the line feeds."""

    name: str
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in the file. `total_sha256` depends on the content of the sections alone: on no id, tenant or time."""

    format_version: int
    schema_revision: str
    tenant: str
    backup_id: str
    snapshot_at: str
    artifacts: Literal["bytes", "references"]
    sections: list[Tally]
    rows: int
    bytes: int
    total_sha256: str

    def head(self) -> Head:
        """What the first line of its file says."""
        return Head(
            self.format_version, self.schema_revision, self.tenant, self.backup_id, self.snapshot_at, self.artifacts,
            [section.name for section in self.sections],
        )  # fmt: skip


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signature of the manifest, of exactly the bytes that stand in its line."""

    algorithm: Literal["ed25519"]
    public_key: str
    value: str


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line."""

    manifest: msgspec.Raw
    signature: Signature | None


class Counting:
    """Counts the rows of a section and their bytes, and digests them."""

    def __init__(self, name: str) -> None:
        self.name, self.rows, self.bytes, self._sha256 = name, 0, 0, hashlib.sha256()

    def take(self, lines: bytes) -> None:
        """Whole lines, each with its line feed."""
        self.rows += lines.count(b"\n")
        self.bytes += len(lines)
        self._sha256.update(lines)

    def tally(self) -> Tally:
        """What has come so far."""
        return Tally(self.name, self.rows, self.bytes, self._sha256.hexdigest())


def manifest_of(head: Head, tallies: Sequence[Tally]) -> Manifest:
    """The manifest of a file with this head and these sections."""
    total = hashlib.sha256("".join(f"{one.name} {one.sha256}\n" for one in tallies).encode()).hexdigest()
    return Manifest(
        head.format_version, head.schema_revision, head.tenant, head.backup_id, head.snapshot_at, head.artifacts,
        list(tallies), sum(one.rows for one in tallies), sum(one.bytes for one in tallies), total,
    )  # fmt: skip


class Writer:
    """Writes a file in order: `begin`, then for each section of the head `section` and its `rows`, then `end`.

    Each call gives the bytes that are ready, perhaps none, and works for as long as compressing takes: call it in a
    thread. After `end`, `manifest` is the text of the manifest, `size_bytes` and `digest` are the file's.
    """

    def __init__(self, head: Head, level: int, signer: Signer | None = None) -> None:
        self.size_bytes, self.digest, self.manifest = 0, b"", b""
        self._head, self._signer, self._sections = head, signer, list[Counting]()
        parameters = zstandard.ZstdCompressionParameters.from_level(level, write_checksum=1)
        if parameters.window_log > WINDOW_LOG_MAX:
            parameters = zstandard.ZstdCompressionParameters.from_level(
                level, write_checksum=1, window_log=WINDOW_LOG_MAX
            )
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters)
        self._frame: Any = None
        self._in_frame = 0
        self._sha256 = hashlib.sha256()

    def begin(self) -> bytes:
        """The first line."""
        return self._line({"cairn_backup": self._head})

    def section(self, name: str, columns: Sequence[str]) -> bytes:
        """Begin the next section; its name is the next that the head names."""
        expected = self._head.sections[len(self._sections)]
        if name != expected:
            raise ValueError(f"The section {expected} comes next, not {name}.")
        self._sections.append(Counting(name))
        return self._line({"section": Section(name, list(columns))})

    def rows(self, lines: bytes) -> bytes:
        """Whole lines of the section: one JSON object each, without a control character in it, and a line feed."""
        self._sections[-1].take(lines)
        return self._compressed(lines)

    def end(self) -> bytes:
        """The manifest, its signature, the end of the last frame, and the seal."""
        if len(self._sections) != len(self._head.sections):
            raise ValueError(f"The section {self._head.sections[len(self._sections)]} is missing.")
        manifest = msgspec.json.encode(manifest_of(self._head, [one.tally() for one in self._sections]))
        signed = None if self._signer is None else self._signer.sign(manifest)
        last = self._line({"manifest": msgspec.Raw(manifest), "signature": signed}) + self._frame_ended()
        seal = SEAL_HEAD + self._sha256.digest()
        self._count(seal)
        self.manifest, self.digest = manifest, self._sha256.digest()
        return last + seal

    def _line(self, value: Any) -> bytes:
        return self._compressed(msgspec.json.encode(value) + b"\n")

    def _compressed(self, text: bytes) -> bytes:
        ended = self._frame_ended() if self._in_frame >= FRAME_BYTES else b""
        if self._frame is None:
            self._frame = self._compressor.compressobj()
        self._in_frame += len(text)
        return ended + self._count(self._frame.compress(text))

    def _frame_ended(self) -> bytes:
        last: bytes = self._frame.flush()
        self._frame, self._in_frame = None, 0
        return self._count(last)

    def _count(self, part: bytes) -> bytes:
        self.size_bytes += len(part)
        self._sha256.update(part)
        return part
