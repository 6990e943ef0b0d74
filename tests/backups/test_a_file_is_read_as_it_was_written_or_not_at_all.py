"""The file of a backup: whatever is not as it was written is found, wherever it is, and said."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Callable

import pytest
import zstandard

from app.backups.errors import BackupDamaged, BackupEncrypted, BackupNewer
from app.backups.format import SEAL_BYTES, SEAL_HEAD, Head, Section, Writer
from app.backups.reading import Lines, Reader
from app.backups.sections import sections
from app.errors import AppError
from app.signing import Signer, holds
from app.tables import METADATA
from tests.backups.files import (
    LINE_BYTES_MAX,
    SAMPLE,
    SIGNER,
    end_of,
    head_of,
    lines_of,
    pieces_of,
    rows_of,
    sealed,
    text_of,
    written,
)

KEY = SIGNER.public_key.encode()


def test_what_was_written_is_read() -> None:
    file = written(SAMPLE)
    pieces = pieces_of(file)

    assert pieces[0] == head_of(list(SAMPLE))
    assert [piece for piece in pieces if isinstance(piece, Section)] == [
        Section(name, list(columns)) for name, (columns, _) in SAMPLE.items()
    ]
    assert rows_of(pieces) == {name: lines_of(rows) for name, (_, rows) in SAMPLE.items() if rows}
    end = end_of(pieces)
    assert [(one.name, one.rows) for one in end.manifest.sections] == [(name, len(SAMPLE[name][1])) for name in SAMPLE]
    assert end.manifest.sections[1].sha256 == hashlib.sha256(lines_of(SAMPLE["messages"][1])).hexdigest()
    assert end.text in text_of(file)
    assert end.signature is not None
    assert holds(end.signature.public_key, end.signature.value, end.text)


def test_the_writer_knows_its_file() -> None:
    writer = Writer(head_of(["workflows"]), 3)
    file = b"".join((writer.begin(), writer.section("workflows", ["id"]), writer.rows(b'{"id":"w"}\n'), writer.end()))

    assert (writer.size_bytes, writer.digest) == (len(file), hashlib.sha256(file).digest())
    reader = Reader(io.BytesIO(file), LINE_BYTES_MAX)
    assert end_of(list(reader.pieces())).text == writer.manifest
    assert (reader.size_bytes, reader.digest) == (len(file), writer.digest)


def test_the_total_depends_on_the_content_alone() -> None:
    one, two = (end_of(pieces_of(written(SAMPLE, backup_id=given, tenant=given))) for given in ("a", "b"))

    assert one.manifest.total_sha256 == two.manifest.total_sha256
    changed = {**SAMPLE, "sessions": (("id",), [{"id": "s"}])}
    assert end_of(pieces_of(written(changed))).manifest.total_sha256 != one.manifest.total_sha256


def test_a_flipped_bit_is_found_at_every_place() -> None:
    file, told = written(SAMPLE), set[str]()
    for place in range(len(file)):
        damaged = bytearray(file)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(AppError) as refusal:
            pieces_of(bytes(damaged))
        told.add(refusal.value.code)

    assert told <= {"backup_damaged", "backup_newer", "backup_encrypted"}


def test_a_false_byte_in_a_large_file_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.backups.format.FRAME_BYTES", 100_000)
    chance = random.Random(7)
    rows = [{"id": f"m{number}", "payload": chance.randbytes(200).hex()} for number in range(2000)]
    file = written({"messages": (("id", "payload"), rows)})
    for _ in range(150):
        damaged = bytearray(file)
        damaged[chance.randrange(len(file))] ^= chance.randrange(1, 256)
        with pytest.raises(BackupDamaged):
            pieces_of(bytes(damaged))


def test_a_cut_is_found_at_every_length() -> None:
    file = written(SAMPLE)
    for length in range(len(file)):
        with pytest.raises(BackupDamaged):
            pieces_of(file[:length])


def test_what_follows_a_file_is_found() -> None:
    for more in (b"\x00", b"more", written(SAMPLE), written(SAMPLE)[-SEAL_BYTES:]):
        with pytest.raises(BackupDamaged):
            pieces_of(written(SAMPLE) + more)


def test_a_file_has_many_frames_and_any_zstd_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.backups.format.FRAME_BYTES", 1000)
    rows = [{"id": f"m{number}"} for number in range(500)]
    writer = Writer(head_of(["messages"]), 19)
    parts = [writer.begin(), writer.section("messages", ["id"])]
    parts += [writer.rows(lines_of([row])) for row in rows]
    file = b"".join((*parts, writer.end()))

    assert file.count(zstandard.FRAME_HEADER) > 5
    assert rows_of(pieces_of(file)) == {"messages": lines_of(rows)}
    assert text_of(file).splitlines()[1] == b'{"section":{"name":"messages","columns":["id"]}}'


def test_rows_come_in_bulk_with_their_numbers() -> None:
    rows = [{"id": f"m{number}", "payload": "x" * 5000} for number in range(1000)]
    pieces = pieces_of(written({"messages": (("id", "payload"), rows)}))

    bulks = [piece for piece in pieces if isinstance(piece, Lines)]
    assert 4 <= len(bulks) <= 6
    assert [bulk.first for bulk in bulks][:2] == [1, bulks[0].text.count(b"\n") + 1]


def changed(change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    """A file whose lines are changed, with a seal that is right."""
    return sealed(b"".join(change(text_of(written(SAMPLE)).splitlines(keepends=True))))


def told(line: bytes, **members: object) -> bytes:
    """A manifest's line with other members, unsigned."""
    manifest = {**json.loads(line)["manifest"], **members}
    return json.dumps({"manifest": manifest, "signature": None}).encode() + b"\n"


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("lines", lambda lines: lines[1:]),
        ("lines", lambda lines: [lines[0], *lines[2:]]),
        ("lines", lambda lines: [lines[0], lines[0], *lines[1:]]),
        ("lines", lambda lines: [*lines[:4], *lines[1:4], *lines[4:]]),
        ("lines", lambda lines: [*lines[:4], lines[1], *lines[4:]]),
        ("lines", lambda lines: [lines[0].replace(b"messages", b"workflows"), *lines[1:]]),
        ("lines", lambda lines: [lines[0].replace(b'"tenant"', b'"owner"'), *lines[1:]]),
        ("lines", lambda lines: [lines[0], lines[1].replace(b'"name"]', b'"id"]'), *lines[2:]]),
        ("lines", lambda lines: [lines[0], b'{"section":[' + b"[" * 100_000 + b"\n", *lines[1:]]),
        ("lines", lambda lines: [lines[0], b'{"section":"' + b"x" * 1_100_000 + b'"}\n', *lines[1:]]),
        ("lines", lambda lines: [*lines, lines[-1]]),
        ("lines", lambda lines: [*lines, b"{}\n"]),
        ("lines", lambda lines: [*lines[:-1], told(lines[-1], more=1)]),
        ("frames", lambda lines: [*lines[:-1], lines[-1][:-1]]),
        ("manifest", lambda lines: lines[:-1]),
        ("manifest", lambda lines: []),
        ("manifest", lambda lines: [*lines[:-2], lines[-1]]),
        ("manifest", lambda lines: [*lines[:-1], told(lines[-1], tenant="other")]),
        ("counts", lambda lines: [*lines[:3], *lines[4:]]),
        ("counts", lambda lines: [*lines[:3], b"{}\n", *lines[3:]]),
        ("digests", lambda lines: [*lines[:2], lines[2].replace(b"wf_1", b"wf_9"), *lines[3:]]),
        ("digests", lambda lines: [*lines[:-1], told(lines[-1], rows=8)]),
        ("digests", lambda lines: [*lines[:-1], told(lines[-1], total_sha256="0" * 64)]),
        ("signature", lambda lines: [*lines[:-1], lines[-1].replace(KEY, Signer(b"2" * 32).public_key.encode())]),
        ("signature", lambda lines: [*lines[:-1], lines[-1].replace(KEY, b"no key")]),
    ],
)  # fmt: skip
def test_what_no_writer_wrote_is_refused(check: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    with pytest.raises(BackupDamaged) as refusal:
        pieces_of(changed(change))

    assert refusal.value.check == check


@pytest.mark.parametrize(
    ("check", "line"), [("digests", [b'{"id": "wf_9", "name": null}\n']), ("counts", [])], ids=("other", "missing")
)
def test_the_section_that_is_not_as_it_was_written_is_named(check: str, line: list[bytes]) -> None:
    with pytest.raises(BackupDamaged) as refusal:
        pieces_of(changed(lambda lines: [*lines[:3], *line, *lines[4:]]))

    assert refusal.value.facts == {"check": check, "section": "workflows"}


def test_where_it_is_damaged_is_said() -> None:
    with pytest.raises(BackupDamaged) as refusal:
        pieces_of(changed(lambda lines: [*lines[:7], lines[1], *lines[7:]]))

    assert refusal.value.facts.items() >= {"check": "lines", "section": "messages", "rows": 2}.items()
    assert refusal.value.facts["before_byte"] > 0


def test_a_bomb_needs_no_more_memory_than_a_line() -> None:
    head = text_of(written(SAMPLE)).splitlines(keepends=True)[0]
    with pytest.raises(BackupDamaged, match="longer than"):
        pieces_of(sealed(head + b"0" * 200_000_000))


def test_a_window_that_is_too_large_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=25)
    frames = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    file = frames.compress(text_of(written(SAMPLE))) + frames.flush()
    with pytest.raises(BackupDamaged) as refusal:
        pieces_of(file + SEAL_HEAD + hashlib.sha256(file).digest())

    assert refusal.value.check == "frames"


def test_a_newer_format_is_refused_whatever_else_it_says() -> None:
    with pytest.raises(BackupNewer) as refusal:
        pieces_of(sealed(b'{"cairn_backup":{"format_version":2,"something":"new"}}\n'))

    assert refusal.value.facts == {"format_version": 2, "supported": 1}


def test_an_encrypted_file_is_told_as_such() -> None:
    with pytest.raises(BackupEncrypted):
        pieces_of(b"age-encryption.org/v1\n-> X25519 x\n".ljust(500, b"."))


def test_sections_are_written_in_the_order_of_the_head() -> None:
    writer = Writer(head_of(["workflows", "messages"]), 3)
    writer.begin()
    with pytest.raises(ValueError, match="workflows comes next"):
        writer.section("messages", ["id"])
    writer.section("workflows", ["id"])
    with pytest.raises(ValueError, match="messages is missing"):
        writer.end()


def test_no_row_begins_like_a_line_about_the_file() -> None:
    assert METADATA.tables
    assert not {section.columns[0] for section in sections()} & {"cairn_backup", "section", "manifest"}


def test_a_head_names_what_the_file_has() -> None:
    assert isinstance(pieces_of(written({}))[0], Head)
    assert end_of(pieces_of(written({}))).manifest.rows == 0
