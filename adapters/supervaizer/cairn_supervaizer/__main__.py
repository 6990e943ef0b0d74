"""The command line: `python -m cairn_supervaizer import entities.json`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.client import CairnError
from cairn_supervaizer.importing import Report, import_tables, read_tables
from cairn_supervaizer.options import options_of

DESCRIPTION: Final = "Keep the jobs and cases of a Supervaizer controller in Cairn."
EXAMPLE: Final = """\
example:
  export CAIRN_API_KEY=...
  python -m cairn_supervaizer import data/entities.json --url http://127.0.0.1:8000

Stop the controller first. Secrets (agent parameters, account keys) are left out, and the file stays as it is: delete
it when you are done. The same file again changes nothing.
Exit status: 0 all imported or there already, 1 some were rejected, 2 it could not go on, and says why.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    given = _parser().parse_args(arguments)
    try:
        tables = read_tables(given.file)
        options = options_of(
            url=given.url, store=given.store, tenant=given.tenant,
            secret_paths=_by_type(given.secret_path),
        )  # fmt: skip
        report = import_tables(options, tables, _show_progress)
    except (OSError, ValueError) as error:
        return _fail(f"{error}")
    except CairnError as error:
        return _fail(f"{str(error).rstrip('.')}. What was imported before stays; run the same command again to go on.")
    _show(report)
    return 1 if report.rejected else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cairn_supervaizer", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "import",
        help="bring an entities.json of Supervaizer into Cairn",
        description="Bring the jobs, cases and other objects of a Supervaizer entities.json into Cairn.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", type=Path, help="the file, as Supervaizer wrote it")
    command.add_argument("--url", help="the address of the service (or CAIRN_URL); its key is CAIRN_API_KEY")
    command.add_argument("--store", help="the store of the controller (or CAIRN_SUPERVAIZER_STORE, or 'default')")
    command.add_argument("--tenant", help="the tenant to act for, only with the operator's key (or CAIRN_TENANT)")
    command.add_argument(
        "--secret-path", action="append", default=[], metavar="TYPE:POINTER",
        help="one more member to leave out, for example 'Job:/metadata/token'; may be repeated",
    )  # fmt: skip
    return parser


def _by_type(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for one in given:
        kind, colon, pointer = one.partition(":")
        if not colon or not kind:
            raise ValueError(f"--secret-path {one!r} is no TYPE:POINTER, for example 'Job:/metadata/token'")
        found[kind] = (*found.get(kind, ()), pointer)
    return found


def _show_progress(kind: str, done: int, of: int) -> None:
    if done == of or done % 100 == 0:
        end = "\n" if done == of or not sys.stderr.isatty() else ""
        sys.stderr.write(f"\r{kind}: {done:,} of {of:,}{end}")
        sys.stderr.flush()


def _show(report: Report) -> None:
    counts = [
        f"{kind} {sum(counter.values()):,}"
        + (f" ({', '.join(f'{kind} {count:,}' for kind, count in sorted(counter.items()))})" if counter else "")
        for kind, counter in (("Imported", report.imported), ("unchanged", report.unchanged))
    ]
    sys.stdout.write(f"{', '.join(counts)}, rejected {len(report.rejected):,}.\n")
    for one in report.rejected:
        sys.stdout.write(f"  {one.type} {one.id!r}: {one.why}\n")


def _fail(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
