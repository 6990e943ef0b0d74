"""The guardian process: outlives a killed owner just long enough to end the owner's servers."""

import contextlib
import os
import sys
from pathlib import Path

from app.embedded.folder import FolderLock, remove_folder
from app.embedded.guardian import DONE, WATCHING
from app.embedded.leftovers import end_leftovers


def watch(folder: Path, owner: int, *, ephemeral: bool) -> None:
    """Blocks until the owner, a process id, is gone; ends its servers unless it said that it had done so itself.

    The owner holds the other end of standard input, which the kernel closes however the owner ends.
    """
    # The owner may be gone already, and nobody reads this; the servers are to be ended all the same.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), WATCHING)
    if sys.stdin.buffer.read() == DONE:
        return
    lock = FolderLock(folder)
    # Another owner has found the servers itself, and may have started new ones.
    if not lock.acquire_after(owner):
        return
    end_leftovers(folder)
    if ephemeral:
        remove_folder(folder)
    lock.release()


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]), ephemeral=sys.argv[3] == "ephemeral")
