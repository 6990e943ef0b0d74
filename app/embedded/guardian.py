"""The owner's hold on its guardian: a small process that ends the servers of an owner that was killed."""

import os
import subprocess
import sys
from pathlib import Path

from app.embedded.descriptors import close_private, keep_private

# What the owner writes when it has stopped the servers itself.
DONE = b"done"
END_SECONDS = 10.0


class Guardian:
    """The owner's end of the pipe that its guardian watches."""

    def __init__(self, folder: Path, *, ephemeral: bool) -> None:
        """Starts the guardian of a folder; it acts when this process ends without having dismissed it."""
        root = Path(__file__).parents[2]
        reader, writer = os.pipe()
        self._writer = keep_private(writer)
        command = [sys.executable, "-m", "app.embedded.watch", str(folder), "ephemeral" if ephemeral else "kept"]
        with (folder / "guardian.log").open("wb") as log:
            self._popen = subprocess.Popen(  # noqa: S603
                command,
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(root)},
                stdin=reader,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.close(reader)

    @property
    def pid(self) -> int:
        """The process id of the guardian."""
        return self._popen.pid

    def dismiss(self) -> None:
        """Tells the guardian that the servers are stopped, and waits for its end."""
        try:
            os.write(self._writer, DONE)
        except BrokenPipeError:
            # Somebody ended the guardian; the servers are stopped, so nothing is lost.
            pass
        finally:
            close_private(self._writer)
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(END_SECONDS)
