"""Where the tests keep their files: in memory, on a machine that has the room. Making a database is files alone."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")
# What a run of all tests takes at most is under half of it.
ROOM_BYTES = 8 << 30


def keep_files_in_memory() -> None:
    """Puts temporary files into memory, of this process and those it starts, unless TMPDIR says where they go."""
    if "TMPDIR" not in os.environ and has_room(SHARED):
        os.environ["TMPDIR"] = str(SHARED)
        tempfile.tempdir = None


def has_room(folder: Path) -> bool:
    """Says whether a file system in memory takes all that the tests write, programs too."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return min(shutil.disk_usage(folder).free, psutil.virtual_memory().available) >= ROOM_BYTES
