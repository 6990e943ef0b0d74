"""Command lines that a command prints for people to paste: they work as they stand, in the folder where it ran."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from app.client.clients import DEFAULT_URL
from app.commands.connection import DEVELOPMENT_KEY


def to_paste(*words: str, url: str, tenant: str | None = None) -> str:
    """A `cairn` command line for the service that this command talks to; the key is not in it."""
    options = [*_unless_set("--url", url, "CAIRN_URL", DEFAULT_URL), *_unless_set("--tenant", tenant, "CAIRN_TENANT")]
    return " ".join([_program(), *(shlex.quote(word) for word in (*words, *options))])


def curl_to_paste(address: str, into: str, *, accept: str, key: str | None, tenant: str | None = None) -> str:
    """A `curl` command line that reads `address` into a file; `key` is the one this command was given, if any."""
    shown = "$CAIRN_KEY" if key is not None else f"$(cat {DEVELOPMENT_KEY})"
    headers = [f'-H "Authorization: Bearer {shown}"', f"-H {shlex.quote(f'Accept: {accept}')}"]
    if tenant is not None:
        headers.append(f"-H {shlex.quote(f'X-Tenant-Id: {tenant}')}")
    return f"curl -sS {' '.join(headers)} {shlex.quote(address)} > {shlex.quote(into)}"


def _unless_set(option: str, value: str | None, variable: str, otherwise: str | None = None) -> list[str]:
    return [] if value is None or value == (os.environ.get(variable) or otherwise) else [option, value]


def _program() -> str:
    """How this program was called, as short as it still works: `cairn`, `.venv/bin/cairn`, or a whole path."""
    called = Path(sys.argv[0])
    known = shutil.which("cairn")
    if called.name != "cairn" or (known is not None and Path(known).absolute() == called.absolute()):
        return "cairn"
    whole = called.absolute()
    return shlex.quote(str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole))
