"""The owner's hold on its guardian: a small process that ends the servers of an owner that was killed."""

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path

from app.embedded.descriptors import close_private, keep_private
from app.embedded.fault import PartError

# What the owner writes when it has stopped the servers itself.
DONE = b"done"
# What the guardian writes when it is at its post.
WATCHING = b"watching"
BEGIN_SECONDS = 20.0
END_SECONDS = 10.0


class Guardian:
    """The owner's ends of the pipes to its guardian."""

    def __init__(self, folder: Path, *, ephemeral: bool) -> None:
        """Starts the guardian of a folder; it acts when this process ends without having dismissed it."""
        self._log = folder / "guardian.log"
        reader, writer = os.pipe()
        self._writer = keep_private(writer)
        words = [str(folder), str(os.getpid()), "ephemeral" if ephemeral else "kept"]
        command = [sys.executable, "-m", "app.embedded.watch", *words]
        # It runs the code that this process runs, wherever that was found.
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            with self._log.open("wb") as log:
                self._popen = subprocess.Popen(  # noqa: S603
                    command,
                    cwd="/",
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                    stdin=reader,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        except BaseException:
            close_private(writer)
            raise
        finally:
            os.close(reader)

    @property
    def pid(self) -> int:
        """The process id of the guardian."""
        return self._popen.pid

    def await_watching(self) -> None:
        """Returns when the guardian is at its post; raises PartError when it could not be started."""
        assert self._popen.stdout
        readable, _, _ = select.select([self._popen.stdout], [], [], BEGIN_SECONDS)
        if not readable or os.read(self._popen.stdout.fileno(), len(WATCHING)) != WATCHING:
            said = self._log.read_text(errors="replace").strip().splitlines()
            reason = said[-1] if said else "it said nothing"
            raise PartError(f"The guardian of the servers did not start ({reason}): see that {sys.executable} runs.")

    def dismiss(self) -> None:
        """Tells the guardian that the servers are stopped, and waits for its end."""
        assert self._popen.stdout
        self._popen.stdout.close()
        try:
            # When somebody ended the guardian nothing is lost: the servers are stopped.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._writer, DONE)
        finally:
            close_private(self._writer)
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(END_SECONDS)
