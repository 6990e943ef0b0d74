"""Brings the file of a backup onto this machine, and holds it against its digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import typer
from rich.filesize import decimal

from app.commands.following import bytes_passing
from app.commands.plainly import refuse


def downloaded(file: Path, size: int, digest: str, pieces: Callable[[int], Iterator[bytes]]) -> None:
    """Write the file, whole or not at all; what came of it before is gone on with. Ends the command where it is wrong.

    `pieces` gives the bytes from a place on; `digest` is the SHA-256 of the whole, in hexadecimal.
    """
    # Named after the content, so that only what is the same is gone on with.
    part = file.with_name(f"{file.name}.{digest[:12]}.part")
    with part.open("ab") as written, bytes_passing(file.name, size) as show:
        done = written.tell()
        for piece in pieces(min(done, size)):
            written.write(piece)
            done += len(piece)
            show(done)
        written.flush()
        os.fsync(written.fileno())
    with part.open("rb") as read:
        found = hashlib.file_digest(read, "sha256").hexdigest()
    if found != digest:
        part.unlink()
        refuse(f"What came has the SHA-256 {found} instead of {digest}; download it again.")
    part.rename(file)
    typer.echo(f"{file} has {decimal(size)}, SHA-256 {digest}.", err=True)
