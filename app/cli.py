"""The command line's entry point: `cairn`, and `python -m app.cli`."""

from __future__ import annotations

import io
import signal
import sys

from app.commands.loading import loading


def main() -> None:
    """Run the command that was typed. Ctrl-C ends it quietly, also while the commands are still being loaded."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with loading():
        from app.commands.root import app  # noqa: PLC0415 - see above

    signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An output that is not Unicode shows `?` for a letter that it cannot hold; Python's own way is a stack.
        sys.stdout.reconfigure(errors="replace")
    try:
        app()
    except KeyboardInterrupt:  # Before typer listens to it: the command's options are still being read.
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
