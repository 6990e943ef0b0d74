"""The file of a backup on this machine: read to its end, encrypted or not, and verified without any service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer
from rich.table import Table

from app.commands.following import bytes_passing, where_of
from app.commands.plainly import refuse
from app.commands.sketches import PIPE_COLUMNS, console_of
from app.commands.trusting import PublicKeys

Identity = Annotated[
    Path | None,
    typer.Option(
        help="A file with identities of age (age-keygen makes it) that open an encrypted backup; it stays here.",
        show_default=False,
    ),
]


def verify(
    file: Annotated[Path, typer.Argument(help="The file of a backup.")],
    identity: Identity = None,
    public_key: PublicKeys = None,
) -> None:
    """Read a file to its end, without any service, and say whether it is as it was written: every byte of it.

    Status 1 where it is not. What only the service sees in the rows, `cairn backup restore --dry-run` tells.
    """
    from app.backups.errors import BackupDamaged  # noqa: PLC0415 - zstandard and cryptography, as the next
    from app.backups.reading import Ended, Reader  # noqa: PLC0415
    from app.errors import AppError  # noqa: PLC0415
    from app.settings import BackupSettings  # noqa: PLC0415

    with opened(file, identity) as source, bytes_passing(file.name, file.stat().st_size) as show:
        reader = Reader(source, BackupSettings().line_bytes_max)
        ended = None
        try:
            for piece in reader.pieces():
                show(reader.size_bytes)
                ended = piece if isinstance(piece, Ended) else None
        except BackupDamaged as damaged:
            refuse(f"{file} is damaged, or no backup: {damaged.detail}{where_of(damaged.facts)}")
        except AppError as refusal:
            refuse(f"{file}: {refusal.detail}")
    assert ended is not None
    signature, manifest = ended.signature, ended.manifest
    if public_key and (signature is None or signature.public_key not in public_key):
        by = "not signed" if signature is None else f"signed with {signature.public_key}"
        refuse(f"{file} is whole, but {by}; it was to be signed with {' or '.join(public_key)}.")
    table = Table("section", "rows", "bytes", box=None)
    for tally in manifest.sections:
        if tally.rows:
            table.add_row(tally.name, f"{tally.rows:,}", f"{tally.bytes:,}")
    console_of(PIPE_COLUMNS).print(table)
    typer.echo(
        f"{file} is as it was written: backup {manifest.backup_id} of tenant {manifest.tenant}, as it was at"
        f" {manifest.snapshot_at}, schema {manifest.schema_revision}, {manifest.rows:,} rows.\n"
        f"Total digest {manifest.total_sha256}\n"
        + ("It is not signed." if signature is None else f"Signed with {signature.public_key}")
    )


@contextmanager
def opened(file: Path, identity: Path | None) -> Iterator[BinaryIO]:
    """The file as it was before it was encrypted, if it was; ends the command plainly where it cannot be read."""
    from app.commands.decrypted import Decrypted, Undecryptable, identities_of, is_encrypted  # noqa: PLC0415 - age

    try:
        with file.open("rb") as read:
            if not is_encrypted(read):
                yield read
            elif identity is None:
                refuse(f"{file} is encrypted: name the file with its identity, as in --identity key.txt.")
            else:
                with Decrypted(read, identities_of(identity)) as decrypted:
                    yield cast(BinaryIO, decrypted)
    except Undecryptable as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or file} cannot be read: {(error.strerror or type(error).__name__).lower()}.")
