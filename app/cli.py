"""The command line's entry point: `cairn`, and `python -m app.cli`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command that was typed. Ctrl-C ends it quietly, also while the commands are still being loaded."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.commands.root import app  # noqa: PLC0415 - see above

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app()


if __name__ == "__main__":
    main()
