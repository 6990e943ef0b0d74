"""Objects as files of a folder: `<folder>/<tenant>/<name>`."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from obstore.store import LocalStore

from app.blobs.blobs import Found
from app.blobs.objects import Objects

# What is being written has the name that it will have and `#1`, or the next number that is free; obstore shows none.
_UNFINISHED = re.compile(r".+#[0-9]+").fullmatch
# How many files are looked at without a pause for others.
LISTED_AT_ONCE = 500
TOLD = "The object store does not answer; try again. The operator looks at the folder of CAIRN_BLOBS__FOLDER."


class Folder(Objects):
    """A folder, made where there is none. What is stored is on the disk before it is told so."""

    def __init__(self, folder: Path, wait_seconds: float) -> None:
        self.folder = folder.absolute()
        super().__init__(lambda: LocalStore(self.folder, mkdir=True), wait_seconds, TOLD)

    async def put(self, tenant_id: str, name: str, parts: AsyncIterator[bytes]) -> None:
        """Store an object, whole or not at all, and on the disk."""
        await super().put(tenant_id, name, parts)
        with self._answering():
            await asyncio.to_thread(_settle, self.folder / tenant_id / name)

    async def delete(self, tenant_id: str, name: str) -> None:
        """Delete the object, or what was left of it. None of that name is no error."""
        if not _UNFINISHED(name):
            await super().delete(tenant_id, name)
            return
        with self._answering():
            await asyncio.to_thread((self.folder / tenant_id / name).unlink, missing_ok=True)

    async def names(self, tenant_id: str | None = None) -> AsyncIterator[Found]:
        """Every object, or those of one tenant, and what killed writers left, in no order."""
        walk = _walk(self.folder, tenant_id)
        while True:
            with self._answering():
                found = await asyncio.to_thread(lambda: list(islice(walk, LISTED_AT_ONCE)))
            if not found:
                return
            for one in found:
                yield one

    async def leave(self, tenant_id: str) -> None:
        """Remove the tenant's folder, if nothing is in it."""
        with self._answering():
            await asyncio.to_thread(_remove_if_empty, self.folder / tenant_id)

    async def check(self, seconds: float) -> str:
        """`folder`, where it can be written, or made. Raises `Unavailable`."""
        with self._answering():
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(_require_writable, self.folder)
        return "folder"


def _walk(folder: Path, tenant_id: str | None) -> Iterator[Found]:
    if not folder.is_dir():
        return
    with os.scandir(folder) as tenants:
        for tenant in tenants:
            if tenant_id in (None, tenant.name) and tenant.is_dir(follow_symlinks=False):
                yield from _files(tenant)


def _files(tenant: os.DirEntry[str]) -> Iterator[Found]:
    with os.scandir(tenant.path) as files:
        for file in files:
            try:
                seen = file.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # It was deleted since the folder was read.
            if file.is_file(follow_symlinks=False):
                modified_at = datetime.fromtimestamp(seen.st_mtime, UTC)
                unfinished = _UNFINISHED(file.name) is not None
                yield Found(tenant.name, file.name, seen.st_size, modified_at, unfinished)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _settle(file: Path) -> None:
    """Return once the file and its name are on the disk."""
    # The tenant's folder may be new as well.
    for path in (file, file.parent, file.parent.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _require_writable(folder: Path) -> None:
    """Make nothing: who only looks leaves no folder behind."""
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written.")
