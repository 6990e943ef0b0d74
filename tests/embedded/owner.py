"""A program that owns embedded servers, for the tests that kill, interrupt or disguise an owner.

It takes one JSON argument: the folder, and the keyword arguments of `start_servers`. It prints one JSON value a
line: each report as a string, then the running servers, or the fault; it stops them when standard input ends.
"""

import json
import sys
from pathlib import Path

from app.embedded import Binaries, PartError, start_servers


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> int:
    asked = json.loads(sys.argv[1])
    programs = asked.pop("programs", None)
    binaries = Binaries(postgres=Path(programs)) if programs else None
    try:
        servers = start_servers(Path(asked.pop("folder")), report=say, binaries=binaries, **asked)
    except PartError as error:
        say({"fault": str(error)})
        return 1
    with servers:
        try:
            say({"pids": servers.pids(), "postgres_url": servers.postgres_url, "folder": str(servers.folder)})
            sys.stdin.read()
        except KeyboardInterrupt:
            say({"interrupted": True, "ended_part": servers.ended_part()})
    say({"stopped": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
