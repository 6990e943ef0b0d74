"""Files of backups made by hand, for tests of what reads them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import zstandard

from app.backups.format import SEAL_HEAD, Head, Section, Writer
from app.backups.reading import Ended, Lines, Piece, Reader
from app.backups.sections import with_what_they_need
from app.signing import Signer

LINE_BYTES_MAX = 4 * 1024 * 1024
Sections = Mapping[str, tuple[Sequence[str], Sequence[Mapping[str, Any]]]]
SIGNER = Signer(bytes(range(32)))
SAMPLE: Sections = {
    "workflows": (("id", "name"), [{"id": "wf_1", "name": "Ünïcode"}, {"id": "wf_2", "name": None}]),
    "messages": (("id", "payload"), [{"id": f"m{number}", "payload": '{"a": 1.0}'} for number in range(7)]),
    "sessions": (("id",), []),
}


def head_of(sections: Sequence[str], **changed: Any) -> Head:
    """The head of a file with these sections."""
    told = {
        "format_version": 1,
        "schema_revision": "0039",
        "tenant": "acme",
        "backup_id": "bk_1",
        "snapshot_at": "2026-01-05T10:00:00.000000Z",
        "artifacts": "references",
        **changed,
    }
    return Head(sections=list(sections), **told)


def lines_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as they stand in a file."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def written(sections: Sections, signer: Signer | None = SIGNER, **changed: Any) -> bytes:
    """A whole file with these sections, each its columns and rows."""
    writer = Writer(head_of(list(sections), **changed), 3, signer)
    parts = [writer.begin()]
    for name, (columns, rows) in sections.items():
        parts += [writer.section(name, columns), writer.rows(lines_of(rows))]
    parts.append(writer.end())
    return b"".join(parts)


def sealed(text: bytes) -> bytes:
    """A file of this text, whatever it says, with a seal that is right."""
    frames = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    return frames + SEAL_HEAD + hashlib.sha256(frames).digest()


def text_of(file: bytes) -> bytes:
    """The text of a file, as `zstd -d` gives it."""
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(file), read_across_frames=True).read()


def pieces_of(file: bytes, line_bytes_max: int = LINE_BYTES_MAX) -> list[Piece]:
    """What a reader finds in a file, to its end."""
    return list(Reader(io.BytesIO(file), line_bytes_max).pieces())


def rows_of(pieces: Sequence[Piece]) -> dict[str, bytes]:
    """The lines of every section that has some."""
    found: dict[str, bytes] = {}
    for piece in pieces:
        if isinstance(piece, Lines):
            found[piece.section] = found.get(piece.section, b"") + piece.text
    return found


def end_of(pieces: Sequence[Piece]) -> Ended:
    """The end, which is the last piece."""
    last = pieces[-1]
    assert isinstance(last, Ended)
    return last


def many(file: bytes, section: str, count: int) -> bytes:
    """A file with so many rows of a section, all like its first one but for the id, and the sections that it needs."""
    pieces = pieces_of(file)
    columns = {piece.name: piece.columns for piece in pieces if isinstance(piece, Section)}
    rows = {name: [json.loads(line) for line in text.splitlines()] for name, text in rows_of(pieces).items()}
    rows[section] = [{**rows[section][0], "id": f"many {number}"} for number in range(count)]
    told = {one.name: (columns[one.name], rows[one.name]) for one in with_what_they_need([section])}
    return written(told, schema_revision=end_of(pieces).manifest.schema_revision)
