"""The reader: exact slices whatever the size, bounded memory, and a position for everything that is no dump."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from app.imports import dump
from app.imports.dump import DumpFile, DumpRefused, files_of, rows_of

BROKEN = [
    ("T.json", b"", "T.json:1:1: the file ends where [ is expected."),
    ("T.json", b'{"a":1}', "T.json:1:1: expected [."),
    ("T.json", b'[\n {"a": 1},\n {"a": }\n]', "T.json:3:8: expecting value."),
    ("T.json", b'[{"a":1}\n{"b":2}]', "T.json:2:1: expected ,."),
    ("T.json", b'[{"a":1},\n', "T.json:2:1: a row must be an object."),
    ("T.json", b'[{"a":1}', "T.json:1:9: the file ends where , is expected."),
    ("T.json", b'[{"a":1}]\n\n x', "T.json:3:2: there is more after the end of the array."),
    ("T.json", b'[\n[1]]', "T.json:2:1: a row must be an object."),
    ("T.json", b'[{"a":NaN}]', "T.json:1:2: NaN is no JSON value."),
    ("T.json", b'[{"a":1,\n"a":2}]', "T.json:1:2: the row names a column twice: a."),
    ("T.json", b'[{"a":"\xff"}]', "T.json:1:8: the text is not UTF-8."),
    ("T.json", b'[{"a":"b\n"}]', "T.json:1:9: invalid control character."),
    ("T.json", b'[{"a":"b', "T.json:1:7: unterminated string starting."),
    ("T.jsonl", b'{"a":1}\n{"a":1} {"b":2}\n', "T.jsonl:2:9: there is more in the line than one row."),
    ("T.jsonl", b'{"a":1}\n\n{"a":\n', "T.jsonl:4:1: expecting value."),
    ("T.json", b"[" + b'{"a":' * 50_000, "T.json:1:2: the row nests too deep."),
]  # fmt: skip


def read(path: Path) -> list[tuple[int, dict[str, bytes]]]:
    """Lines and columns of every row."""
    return [(row.line, row.columns) for row in rows_of(DumpFile("T", path))]


@pytest.mark.parametrize(("name", "content", "told"), BROKEN)
def test_what_is_no_dump_is_refused_with_line_and_column(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DumpRefused) as refused:
        read(tmp_path / name)
    assert refused.value.problems == [told]


@pytest.mark.parametrize("block", [1, 7, 64, 1024])
def test_rows_are_cut_exactly_wherever_a_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(dump, "BLOCK_BYTES", block)
    values = [
        b'{ "x":1.0,"y":[1e400] }',
        '"ü \\ud83d \\u0000 {[,]}"'.encode(),
        b"12345678901234567890.50",
        b'"\\\\\\""',
    ]
    rows = [b'{"v": ' + value + b', "n" :' + b"%d" % number + b"}" for number, value in enumerate(values)]
    (tmp_path / "T.json").write_bytes(b"[\n" + b",\n".join(rows) + b"\n]\n")
    (tmp_path / "T.jsonl").write_bytes(b"\n".join(rows))
    expected = [{"v": value, "n": b"%d" % number} for number, value in enumerate(values)]
    assert read(tmp_path / "T.json") == list(enumerate(expected, 2))
    assert read(tmp_path / "T.jsonl") == list(enumerate(expected, 1))


def test_a_large_file_is_read_within_a_few_blocks_of_memory(tmp_path: Path) -> None:
    row = json.dumps({"id": 1, "payload": ["x" * 100] * 1000})
    (tmp_path / "T.json").write_text("[" + ",\n".join([row] * 400) + "]")
    size = (tmp_path / "T.json").stat().st_size
    seen: list[int] = []
    tracemalloc.start()
    try:
        count = sum(1 for _ in rows_of(DumpFile("T", tmp_path / "T.json"), seen.append))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (count, sum(seen)) == (400, size)
    assert size > 40_000_000
    assert peak < 12_000_000


def test_a_folder_holds_one_file_for_each_table(tmp_path: Path) -> None:
    with pytest.raises(DumpRefused, match="no folder"):
        files_of(tmp_path / "nowhere")
    with pytest.raises(DumpRefused, match=r"no \.json or \.jsonl"):
        files_of(tmp_path)
    for name in ("public.Workflow.json", "mcp.servers.jsonl", "notes.txt"):
        (tmp_path / name).write_text("[]")
    files, others = files_of(tmp_path)
    assert ([file.table for file in files], others) == (["mcp.servers", "Workflow"], ["notes.txt"])
    (tmp_path / "Workflow.jsonl").write_text("")
    with pytest.raises(DumpRefused, match=r"both hold the table Workflow"):
        files_of(tmp_path)
