"""Holds the rows of a backup against what they say of themselves, line by line, before any of them goes further."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from app.backups.errors import BackupNewer, BackupRefused
from app.backups.format import Head, Section
from app.backups.lawful import LAWFUL
from app.backups.reading import Lines
from app.backups.section import Field
from app.db.revision import revisions
from app.versions.identity import dsl_hash

# How values of PostgreSQL stand in JSON, within what the API lets through: an instant that no driver reads, or a number
# that overflows with the next change, would stop the jobs that look after every tenant.
NUMBER_MAX = 2**53 - 1
_Word = Annotated[str, msgspec.Meta(max_length=1024)]
# The very ends are infinite to the driver.
_ENDS = r"0001-01-01T00:00:00\+|9999-12-31T23:59:59\.999999"
_Instant = Annotated[str, msgspec.Meta(pattern=rf"^(?!{_ENDS})\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{{1,6}})?\+00:00$")]
_Whole = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
# They are counted on.
_COUNTED = frozenset({"attempt_count", "dispatch", "number", "round_count"})
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
_KINDS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("text[] collate",), list[_Word]),
    (("text[]",), list[str]),
    (("text collate",), _Word),
    (("timestamp",), _Instant),
    (("text", "bytea", "vector"), str),
    (("integer", "bigint", "smallint"), _Whole),
    (("numeric", "double"), float),
    (("boolean",), bool),
)
Row = Mapping[str, Any]
_NAME = re.compile(r"[a-z_0-9]{1,63}").fullmatch
# Sections of bytes in lines, and what names the whole that the bytes of a line are part of.
WHOLES = {"artifact_bytes": ("hash",), "attachment_chunks": ("path", "id")}


@dataclass(frozen=True)
class Whole:
    """What the lines of one artifact, or of one attachment, come to; `key` are the members that name it.

    `regular` says that each part but the last has `part_bytes`. `part_digests` are those of the parts in order.
    """

    section: str
    key: tuple[str, ...]
    size_bytes: int
    part_bytes: int
    regular: bool
    digest: bytes
    part_digests: bytes


class Rows:
    """Checks the rows of one file in order; `wholes` collects what bytes come to, for whoever takes them away."""

    def __init__(self, head: Head, known: Mapping[str, Mapping[str, Field]]) -> None:
        """`known` are the members of each section, as this release has them. Raises `BackupNewer`."""
        self.wholes: list[Whole] = []
        self._known = known
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(dict[str, Any]).decode
        self._names: dict[str, str] = {}
        self._gathering: _Gathering | None = None
        every = revisions()
        if head.schema_revision not in every:
            raise BackupNewer(
                f"The backup has the schema {head.schema_revision}; this release knows schemas up to {every[-1]}.",
                schema_revision=head.schema_revision,
                supported=every[-1],
            )
        # What an older release had and this one does not is left out.
        self._strict = head.schema_revision == every[-1]

    def begin(self, section: Section) -> None:
        """A section begins. Raises `BackupRefused` where it, or a column of it, is none of this schema's."""
        self.end()
        known = self._known.get(section.name, {})
        other = set(section.columns) ^ known.keys()
        if (self._strict and other) or not all(map(_NAME, section.columns)):
            raise BackupRefused(
                "sections", "There is no such section, or these are not its columns.", section=section.name[:100],
                column=min(other, default="")[:100],
            )  # fmt: skip
        self._names = {column: f"c{number}" for number, column in enumerate(section.columns)}
        fields = [(name, _kind(known.get(column))) for column, name in self._names.items()]
        row = msgspec.defstruct(
            "Row", fields, rename={name: column for column, name in self._names.items()}, forbid_unknown_fields=True
        )
        self._decode = msgspec.json.Decoder(row).decode

    def check(self, lines: Lines) -> None:
        """Rows of the section. Raises `BackupRefused` at the first that is none; call it in a thread."""
        special = lines.section == "versions" or lines.section in WHOLES or lines.section in LAWFUL
        for row, text in enumerate(lines.text.split(b"\n")[:-1], lines.first):
            try:
                values = self._decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise _refused(
                    lines.section, row, "The line has not the columns of its section, as they are."
                ) from error
            if special:
                self._look(lines.section, row, {name: getattr(values, at) for name, at in self._names.items()})

    def end(self) -> None:
        """The rows of the section are over."""
        if self._gathering is not None:
            self.wholes.append(self._gathering.whole())
            self._gathering = None

    def _look(self, section: str, row: int, values: Row) -> None:
        if section in LAWFUL:
            _check_law(section, row, values)
            return
        if section not in WHOLES:
            _check_version(row, values)
            return
        if not {*WHOLES[section], "position", "bytes"} <= values.keys() or None in values.values():
            raise _refused(section, row, "The row says too little.")
        key = tuple(values[name] for name in WHOLES[section])
        if self._gathering is None or self._gathering.key != key:
            self.end()
            self._gathering = _Gathering(section, key)
        self._gathering.take(row, values)


class _Gathering:
    def __init__(self, section: str, key: tuple[str, ...]) -> None:
        self.section, self.key = section, key
        self._sha256, self._digests = hashlib.sha256(), bytearray()
        self._size = self._first = self._last = 0
        self._regular = True

    def take(self, row: int, values: Row) -> None:
        if values["position"] != len(self._digests) // 32:
            raise _refused(self.section, row, "The parts are not there in their order.")
        part = part_of(self.section, row, values["bytes"])
        digest = hashlib.sha256(part).digest()
        if "digest" in values and values["digest"] != f"\\x{digest.hex()}":
            raise _refused(self.section, row, "The bytes do not fit their digest.")
        self._regular = self._regular and (not self._digests or self._last == self._first)
        self._first = self._first if self._digests else len(part)
        self._last = len(part)
        self._size += len(part)
        self._sha256.update(part)
        self._digests += digest

    def whole(self) -> Whole:
        regular = self._regular and self._last <= self._first
        digest, digests = self._sha256.digest(), bytes(self._digests)
        return Whole(self.section, self.key, self._size, self._first, regular, digest, digests)


def parts_of(lines: Lines) -> Iterator[tuple[bytes, bytes]]:
    """The parts of artifacts in lines that were checked: whose each is, by its hash, and its bytes."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for row, text in enumerate(lines.text.split(b"\n")[:-1], lines.first):
        values = decode(text)
        yield bytes.fromhex(values["hash"].removeprefix("\\x")), part_of(lines.section, row, values["bytes"])


def part_of(section: str, row: int, text: str) -> bytes:
    """The bytes of a part, from base64. Raises `BackupRefused`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused(section, row, "The bytes are no base64.") from error


def _check_version(row: int, values: Row) -> None:
    dsl = values.get("dsl")
    if dsl is not None and "dsl_hash" in values and dsl_hash(dsl.encode()) != values["dsl_hash"]:
        raise _refused("versions", row, "The dsl_hash is not that of the dsl.")


def _check_law(section: str, row: int, values: Row) -> None:
    try:
        LAWFUL[section](values)
    except ValueError as error:
        # Its words may hold what is in the row.
        raise _refused(section, row, "The row holds what the service never keeps.") from error


def _kind(field: Field | None) -> Any:
    """What a member may be; one that this release does not know may be anything."""
    if field is None:
        return msgspec.Raw
    if field.type == "INTEGER" and field.name in _COUNTED:
        return _Count
    for beginnings, kind in _KINDS:
        if field.type.lower().startswith(beginnings):
            return kind | None
    # `jsonb` that may be null stands in the file as text; what is always there is an object.
    return dict[str, msgspec.Raw]


def _refused(section: str, row: int, detail: str) -> BackupRefused:
    return BackupRefused("rows", detail, section=section, row=row)
