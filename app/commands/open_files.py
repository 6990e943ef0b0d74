"""How many files, sockets among them, a process may have open."""

from __future__ import annotations

import resource

# Beyond this some programs that are started from here walk over every number.
OPEN_FILES_MAX = 65_536


def raise_open_files() -> int:
    """Let this process open as many files as it may without asking anybody, up to `OPEN_FILES_MAX`; how many these are.

    A usual limit of 1,024 is less than waiting readers and deliveries under way can need. One that is higher stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
